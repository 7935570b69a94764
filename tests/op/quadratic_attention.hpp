#pragma once

#include "op/masks.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace constrain::test {

/// Attention and its gradient by the quadratic op, computed in `real` on this processor.
template <class real> struct quadratic {
  std::vector<double> y, dqkv;

  /// `qkv`: queries, keys and values side by side. `mask`: lengths of padded sequences, or positions in documents.
  template <class T>
  quadratic(array<T> const& qkv, array<T> const& dy, attention_options const& o,
            std::vector<std::int32_t> const& mask = {}) {
    auto const s = qkv.in().shape();
    auto const attributes = pack(o);
    call const c{attributes, no_parameters};
    array<real> const in(s, qkv.values()), g(dy.in().shape(), dy.values());
    array<real> result(g.in().shape()), out(s), p(shape(s.extent[0], o.heads, s.extent[1], s.extent[1]));
    array<real> dp(p.in().shape());
    qkv_operands<real const> const x(in[0], s, o);
    qkv_operands<real> const dx(out[0], s, o);
    if (mask.empty()) call_kernel<op::attention>(c, x.q(), x.k(), x.v(), result.out(), p.out());
    else {
      array<std::int32_t> const operand(o.documents ? shape(s.extent[0], s.extent[1]) : shape(s.extent[0]), mask);
      call_kernel<op::attention>(c, x.q(), x.k(), x.v(), operand.in(), result.out(), p.out());
    }
    call_kernel<op::attention_gradient>(c, g.in(), x.q(), x.k(), x.v(), p.in(), dx.q(), dx.k(), dx.v(), dp.out());
    y.assign(result.values().begin(), result.values().end());
    dqkv.assign(out.values().begin(), out.values().end());
  }
};

/// `qkv` with NaN in the keys and values of the padding.
template <class T>
array<T> without_padding(array<T> const& qkv, attention_options const& o, std::vector<std::int32_t> const& lengths) {
  array<T> out = qkv;
  auto const s = qkv.in().shape();
  auto const queries = qkv_operands<T const>(qkv[0], s, o).q().features();
  for (std::int64_t i = 0; i < s.elements(); ++i) {
    auto const row = i / s.features(), sequence = row / s.extent[1];
    bool const is_padding = row % s.extent[1] >= lengths[static_cast<std::size_t>(sequence)];
    if (is_padding && i % s.features() >= queries)
      out[static_cast<std::size_t>(i)] = static_cast<T>(std::numeric_limits<arithmetic<T>>::quiet_NaN());
  }
  return out;
}

/// The elements, as doubles.
template <class T> std::vector<double> in_double(std::vector<T> const& values) {
  std::vector<double> all;
  for (auto const& x : values) all.push_back(static_cast<double>(arithmetic<T>(x)));
  return all;
}

} // namespace constrain::test
