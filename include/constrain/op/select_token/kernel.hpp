#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/select_token/select_token.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: y[i] = element i % width of the selected token of sequence i / width.
template <class stored> struct select_token_elements {
  stored const* x;
  stored* y;
  std::int64_t tokens, width, index; // tokens per sequence; elements per token; index of the selected token

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = x[(i / width * tokens + index) * width + i % width]; }
};

template <class device> struct kernel<op::select_token, device> {
  template <class stored>
  static void run(call_of<op::select_token> const& c, tensor<stored const> x, tensor<stored> y) {
    for_elements(device{}, c, y.count,
                 select_token_elements<stored>{x.data, y.data, x.shape().extent[1], x.features(), c.options.index});
  }
};

/// Loop body of the kernel: dx[i] = the element of dy for the same sequence and feature, if element i belongs to the
/// selected token of a sequence, else 0.
template <class stored> struct select_token_gradient_elements {
  stored const* dy;
  stored* dx;
  std::int64_t tokens, width, index; // tokens per sequence; elements per token; index of the selected token

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    bool const selected = i / width % tokens == index;
    dx[i] = selected ? arithmetic<stored>(dy[i / width / tokens * width + i % width]) : arithmetic<stored>(0);
  }
};

template <class device> struct kernel<op::select_token_gradient, device> {
  template <class stored>
  static void run(call_of<op::select_token_gradient> const& c, tensor<stored const> dy, tensor<stored> dx) {
    for_elements(
        device{}, c, dx.count,
        select_token_gradient_elements<stored>{dy.data, dx.data, dx.shape().extent[1], dx.features(), c.options.index});
  }
};

} // namespace constrain
