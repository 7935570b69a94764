#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The label of positions (or, for classification, sequences) that count neither in the loss nor in the accuracy. The
/// same number as PyTorch's default `ignore_index`.
inline constexpr std::int32_t ignored_label = -100;

} // namespace constrain
