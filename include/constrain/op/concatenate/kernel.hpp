#pragma once

#include "constrain/device/kernel_needs.hpp"
#include "constrain/op/concatenate/concatenate.hpp"
#include "constrain/op/slice/kernel.hpp"

#include <numeric>
#include <tuple>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The copy of one input into the result, for `copy_mapped`.
struct concatenate_copy {
  slice_map input;         // the input as a slice of the result
  std::int64_t features;   // elements of a row of the result
  std::int64_t row_stride; // elements from one row of the result to the next

  std::int64_t run_length() const { return std::gcd(input.run_length(), std::gcd(features, row_stride)); }
  concatenate_copy of_packs(std::int64_t n) const { return {input.of_packs(n), features / n, row_stride / n}; }
  CT_HOST_DEVICE std::int64_t from(std::int64_t i) const { return input.in_rows(i); }
  CT_HOST_DEVICE std::int64_t to(std::int64_t i) const {
    auto const index = input.in_full(i);
    return index / features * row_stride + index % features;
  }
};

} // namespace detail

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
    detail::concatenate_copy const places{{x.shape(), d, y.shape().extent[d], begin, x}, y.features(), y.row_stride()};
    copy_mapped(device{}, c, places, x.count, y.data, static_cast<stored const*>(x.data));
  }
};

} // namespace constrain
