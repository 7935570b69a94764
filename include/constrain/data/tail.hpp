#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// What becomes of the samples at an epoch's end that do not fill a window.
enum class tail : std::uint8_t {
  carried, ///< The next epoch's first ones fill it up: every sample counts as much as any other.
  dropped, ///< They are left out of this epoch; the next one draws others.
  padded,  ///< They make a window of their own, filled up with tokens 0 and ignored labels.
};

} // namespace constrain::data
