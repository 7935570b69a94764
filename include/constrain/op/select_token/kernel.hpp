#pragma once

#include "constrain/op/select_token/select_token.hpp"
#include "constrain/op/slice/kernel.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The map between `all` [sequences, tokens, width], which is contiguous, and the selected tokens [sequences, width]: a
/// slice of one token, number `index`, of each sequence.
template <class T> slice_map token_map(tensor<T> const& all, std::int64_t index) {
  auto const& s = all.shape();
  return {shape(s.extent[0], 1, all.features()), 1, s.extent[1], index, all};
}

} // namespace detail

template <class device> struct kernel<op::select_token, device> {
  template <class stored>
  static void run(call_of<op::select_token> const& c, tensor<stored const> x, tensor<stored> y) {
    copy_mapped(device{}, c, detail::slice_copy{detail::token_map(x, c.options.index)}, y.count, y.data, x.data);
  }
};

template <class device> struct kernel<op::select_token_gradient, device> {
  template <class stored>
  static void run(call_of<op::select_token_gradient> const& c, tensor<stored const> dy, tensor<stored> dx) {
    copy_padded(device{}, c, detail::token_map(dx, c.options.index), dx.count, dx.data, dy.data);
  }
};

} // namespace constrain
