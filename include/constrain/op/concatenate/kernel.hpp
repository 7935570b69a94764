#pragma once

#include "constrain/device/kernel_needs.hpp"
#include "constrain/op/concatenate/concatenate.hpp"
#include "constrain/op/slice/kernel.hpp"

#include <tuple>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: writes element i of one input to its position in y. `map`: the input as a slice of y.
template <class stored> struct concatenate_elements {
  stored const* x;
  stored* y;
  slice_map map;
  std::int64_t features;   // elements of a row of y
  std::int64_t row_stride; // elements from one row of y to the next

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto const index = map.in_full(i);
    y[index / features * row_stride + index % features] = x[map.in_rows(i)];
  }
};

template <class device> struct kernel<op::concatenate, device> {
  /// `tensors`: the inputs, then the result, which `write` skips.
  template <class... operands> static void run(call_of<op::concatenate> const& c, operands const&... tensors) {
    auto const& y = std::get<sizeof...(tensors) - 1>(std::tie(tensors...));
    std::int64_t begin = 0;
    int remaining = static_cast<int>(sizeof...(tensors)) - 1;
    auto const write = [&](auto const& x) {
      if (remaining-- == 0) return;
      copy_into(c, x, y, begin);
      begin += x.shape().extent[c.options.dimension];
    };
    (write(tensors), ...);
  }
  static constexpr kernel_needs needs_of(operand_extents const& inputs, operand_extents const&) {
    return {.launches = inputs.size()};
  }

private:
  template <class from, class stored>
  static void copy_into(call_of<op::concatenate> const& c, tensor<from> const& x, tensor<stored> const& y,
                        std::int64_t begin) {
    auto const d = c.options.dimension;
    for_elements(device{}, c, x.count,
                 concatenate_elements<stored>{
                     x.data, y.data, {x.shape(), d, y.shape().extent[d], begin, x}, y.features(), y.row_stride()});
  }
};

} // namespace constrain
