#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/device/cpu/gemm.hpp"
#include "constrain/op/gradient_norm/cpu.hpp"
#include "constrain/op/muon/muon.hpp"
#include "constrain/op/update/step_hyperparameters.hpp"

#include <algorithm>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The Frobenius norm of a matrix. The squares are summed in chunks, so that the norm does not depend on the number of
/// threads.
template <class real> double frobenius_norm(tensor<real> matrix) {
  constexpr std::int64_t capacity = 1024; // size of `sums`, a local array: kernels must not allocate
  double sums[capacity], total = 0;
  auto const chunks = norm_chunks(matrix.count);
  for (std::int64_t first = 0; first < chunks; first += capacity) {
    auto const count = std::min(capacity, chunks - first);
    sum_chunks(matrix.data, matrix.count, chunks, matrix.count, first, count, sums);
    for (std::int64_t k = 0; k < count; ++k) total += sums[k];
  }
  return math::sqrt(total);
}

/// One Newton-Schulz step: next = a X + b A X + c A A X with A = X X^T, where X and next are [rows, columns] and do not
/// overlap, and a, b and c are fields of `h`. If X has more rows than columns, uses the equivalent form X (a I + b A +
/// c A A) with A = X^T X, whose GEMMs are smaller. `gram` and `polynomial` are scratch, [side, side], where side is the
/// smaller of rows and columns.
template <class real, class prepared>
void newton_schulz_step(prepared const& h, tensor<real> x, tensor<real> gram, tensor<real> polynomial,
                        tensor<real> next) {
  auto const rows = x.shape().extent[0], columns = x.shape().extent[1], side = gram.features();
  bool const tall = rows > columns;
  gemm(tall ? transpose::yes : transpose::no, tall ? transpose::no : transpose::yes, side, side, tall ? rows : columns,
       real(1), x.data, columns, x.data, columns, real(0), gram.data, side);
  for_elements(gram.count, [=](std::int64_t i) { polynomial[i] = gram[i]; });
  gemm(transpose::no, transpose::no, side, side, side, h.c, gram.data, side, gram.data, side, h.b, polynomial.data,
       side);
  for (std::int64_t i = 0; i < side; ++i) polynomial[i * side + i] += h.a;
  auto const left = tall ? x.data : polynomial.data, right = tall ? polynomial.data : x.data;
  gemm(transpose::no, transpose::no, rows, columns, side, real(1), left, side, right, columns, real(0), next.data,
       columns);
}

} // namespace detail

template <class optimizer> struct kernel<op::muon<optimizer>, cpu> {
  template <class real>
  static void run(call_of<op::muon<optimizer>> const& c, tensor<real const> gradient,
                  tensor<double const> norm_and_scale, tensor<std::uint8_t const> hyper, tensor<real const> weight,
                  tensor<real const> momentum, tensor<real> new_weight, tensor<real> new_momentum, tensor<real> scratch,
                  tensor<real> gram, tensor<real> polynomial) {
    auto const h = op::hyperparameters_of<optimizer, real>(hyper).choose(c.options.decays);
    auto const scale = static_cast<real>(norm_and_scale[1]);
    auto x = new_weight, next = scratch;
    for_elements(x.count, [=](std::int64_t i) {
      real const g = gradient[i] * scale;
      new_momentum[i] = momentum[i] + h.share * (g - momentum[i]);
      x[i] = h.nesterov ? new_momentum[i] - h.share * (new_momentum[i] - g) : new_momentum[i];
    });
    auto const norm = static_cast<real>(std::max(detail::frobenius_norm(x), h.epsilon));
    for_elements(x.count, [=](std::int64_t i) { x[i] /= norm; });
    for (int step = 0; step < optimizer::newton_schulz_steps; ++step) {
      detail::newton_schulz_step(h, x, gram, polynomial, next);
      std::swap(x, next);
    }
    auto const rate = static_cast<real>(h.learning_rate(weight.shape().extent[0], weight.shape().extent[1]));
    for_elements(x.count, [=](std::int64_t i) { new_weight[i] = weight[i] * h.keep - rate * x[i]; });
  }
};

} // namespace constrain
