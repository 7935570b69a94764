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
    auto const end = std::min(begin + x.count, c.options.elements), period = c.options.period;
    for (auto next = begin / period * period + period; next - c.options.unused < end; next += period) {
      auto const first = std::max(next - c.options.unused, begin), last = std::min(next, end);
      std::fill(x.data + (first - begin), x.data + (last - begin), stored(0));
    }
  }
};

} // namespace constrain
