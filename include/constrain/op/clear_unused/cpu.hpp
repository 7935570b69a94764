#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/op/clear_unused/clear_unused.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::clear_unused, cpu> {
  template <class stored> static void run(call_of<op::clear_unused> const& c, tensor<stored const>, tensor<stored> x) {
    auto const& ranks = *c.parameters.tensor;
    if (ranks.rank() < ranks.size() - 1) return;
    // x is one shard of the range, or the full range.
    auto const begin = x.count == c.options.elements ? 0 : c.parameters.zero->rank() * x.count;
    auto const used = std::clamp<std::int64_t>(c.options.elements - c.options.unused - begin, 0, x.count);
    std::fill(x.data + used, x.data + x.count, stored(0));
  }
};

} // namespace constrain
