#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A label that counts for nothing.
inline constexpr std::int32_t ignored_label = -100;

} // namespace constrain
