#pragma once

#include "constrain/base/variant.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether a stored matrix enters a GEMM as it is or transposed.
enum class transpose : bool { no, yes };

} // namespace constrain
