#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// What happens to the last samples of an epoch if they do not fill a batch.
enum class tail : std::uint8_t {
  carry, ///< The batch is filled with samples of the next epoch. Every sample is used once per epoch.
  drop,  ///< The samples are skipped in this epoch.
  pad,   ///< The batch is padded with zeros and ignored labels. Refused if the task has floating-point labels, or if
         ///< an op uses the task's first labels as indices: these labels cannot be ignored.
};

} // namespace constrain::data
