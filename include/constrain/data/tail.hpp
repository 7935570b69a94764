#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// What becomes of the samples at an epoch's end that do not fill a batch.
enum class tail : std::uint8_t {
  carry, ///< The next epoch's first ones fill it up: every sample counts as much as any other.
  drop,  ///< They are left out of this epoch; the next one draws others.
  pad,   ///< They make a batch of their own, filled up with tokens 0 and ignored labels.
};

} // namespace constrain::data
