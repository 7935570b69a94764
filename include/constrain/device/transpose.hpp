#pragma once

#include "constrain/base/variant.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether a GEMM transposes a stored matrix.
enum class transpose : bool { no, yes };

} // namespace constrain
