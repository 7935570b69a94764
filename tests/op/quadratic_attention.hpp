#pragma once

#include "op/qkv.hpp"

#include <vector>

namespace constrain::test {

/// Attention and its gradient by the quadratic op, computed in `real` on this processor.
template <class real> struct quadratic {
  std::vector<double> y, dqkv;

  /// `qkv`: queries, keys and values side by side.
  template <class T> quadratic(array<T> const& qkv, array<T> const& dy, attention_options const& o) {
    auto const s = qkv.in().shape();
    auto const attributes = pack(o);
    call const c{attributes, no_parameters};
    array<real> const in(s, qkv.values()), g(dy.in().shape(), dy.values());
    array<real> result(g.in().shape()), out(s), p(shape(s.extent[0], o.heads, s.extent[1], s.extent[1]));
    array<real> dp(p.in().shape());
    qkv_operands<real const> const x(in[0], s, o);
    qkv_operands<real> const dx(out[0], s, o);
    call_kernel<op::attention>(c, x.q(), x.k(), x.v(), result.out(), p.out());
    call_kernel<op::attention_gradient>(c, g.in(), x.q(), x.k(), x.v(), p.in(), dx.q(), dx.k(), dx.v(), dp.out());
    y.assign(result.values().begin(), result.values().end());
    dqkv.assign(out.values().begin(), out.values().end());
  }
};

/// The elements, as doubles.
template <class T> std::vector<double> in_double(std::vector<T> const& values) {
  std::vector<double> all;
  for (auto const& x : values) all.push_back(static_cast<double>(arithmetic<T>(x)));
  return all;
}

} // namespace constrain::test
