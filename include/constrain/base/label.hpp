#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Tokens or sequences with this label count neither in the loss nor in the accuracy. The value is PyTorch's default
/// `ignore_index`.
inline constexpr std::int32_t ignored_label = -100;

} // namespace constrain
