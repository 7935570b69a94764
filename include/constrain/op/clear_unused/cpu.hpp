#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/op/clear_unused/clear_unused.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

/// x may be a stack. Each of its tensors is one shard of a rank's range, or the full range.
template <> struct kernel<op::clear_unused, cpu> {
  template <class stored> static void run(call_of<op::clear_unused> const& c, tensor<stored const>, tensor<stored> x) {
    auto const& ranks = *c.parameters.tensor;
    auto const elements = x.shape().elements();
    if (ranks.rank() < ranks.size() - 1 || elements == 0) return;
    auto const begin = elements == c.options.elements ? 0 : c.parameters.zero->rank() * elements;
    for (auto* one = x.data; one < x.data + x.count; one += elements) clear(c.options, begin, elements, one);
  }

private:
  /// `first`: the `count` elements from element `begin` of the range on.
  template <class stored>
  static void clear(op::clear_unused::options const& o, std::int64_t begin, std::int64_t count, stored* first) {
    auto const end = std::min(begin + count, o.elements);
    for (auto next = begin / o.period * o.period + o.period; next - o.unused < end; next += o.period)
      std::fill(first + (std::max(next - o.unused, begin) - begin), first + (std::min(next, end) - begin), stored(0));
  }
};

} // namespace constrain
