#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/op/quantized_update/quantized_update.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The number of elements of a tensor that this rank updates, without the padding of its shard. `stored`: the number of
/// elements that the rank stores, with the padding.
inline std::int64_t used_elements(call const& c, op::quantized_update_options const& options, std::int64_t stored) {
  auto const full = options.elements;
  if (stored == full) return stored;
  return std::clamp<std::int64_t>(full - c.parameters.group->rank() * stored, 0, stored);
}

} // namespace constrain::detail
