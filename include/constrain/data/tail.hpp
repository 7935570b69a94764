#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// What happens to the last samples of an epoch if they do not fill a batch.
enum class tail : std::uint8_t {
  carry, ///< The batch is filled with samples of the next epoch. Every sample is used once per epoch.
  drop,  ///< The samples are skipped in this epoch.
  pad,   ///< The batch is padded with zeros and ignored labels. Refused if any labels of the task are floating-point;
         ///< if its first labels cannot be ignored, because an op such as `embedding` uses them as indices; or if a
         ///< path from the logits, or from other labels used as indices, to the loss does not pass through an op that
         ///< also reads integer labels that can be ignored.
};

} // namespace constrain::data
