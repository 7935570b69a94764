#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Tokens or sequences with this label do not count in the loss, the accuracy or the other metrics. The value is
/// PyTorch's default `ignore_index`.
inline constexpr std::int32_t ignored_label = -100;

} // namespace constrain
