#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/op/quantized_update/quantized_update.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The number of elements of one tensor that this rank updates, without the padding of its shard. `stored`: the number
/// of elements that the rank stores, with the padding. If `stored` is `options.elements`, because the tensor is not
/// sharded or one shard holds all of it, the result is `stored` on every rank, even on a rank whose shard is only
/// padding.
inline std::int64_t used_elements(call const& c, op::quantized_update_options const& options, std::int64_t stored) {
  auto const full = options.elements;
  if (stored == full) return stored;
  return std::clamp<std::int64_t>(full - c.parameters.zero->rank() * stored, 0, stored);
}

} // namespace constrain::detail
