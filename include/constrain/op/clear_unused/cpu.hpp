#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/op/clear_unused/clear_unused.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

/// x may be a stack of tensors. Of each tensor, it holds this rank's range, or one shard of the range.
template <> struct kernel<op::clear_unused, cpu> {
  template <class stored> static void run(call_of<op::clear_unused> const& c, tensor<stored const>, tensor<stored> x) {
    auto const& ranks = *c.parameters.tensor;
    auto const elements = x.shape().elements();
    if (ranks.rank() < ranks.size() - 1 || elements == 0) return;
    auto const begin = elements == c.options.elements ? 0 : c.parameters.zero->rank() * elements;
    for (auto* one = x.data; one < x.data + x.count; one += elements) clear(c.options, begin, elements, one);
  }

private:
  /// Sets to 0 the unused elements among elements [begin, begin + count) of the range. `first`: points to element
  /// `begin`.
  template <class stored>
  static void clear(op::clear_unused::options const& o, std::int64_t begin, std::int64_t count, stored* first) {
    auto const end = std::min(begin + count, o.elements);
    for (auto next = begin / o.period * o.period + o.period; next - o.unused < end; next += o.period)
      std::fill(first + (std::max(next - o.unused, begin) - begin), first + (std::min(next, end) - begin), stored(0));
  }
};

} // namespace constrain
