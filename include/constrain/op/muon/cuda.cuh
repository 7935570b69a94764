#pragma once

#include "constrain/device/cuda/gemm.cuh"
#include "constrain/device/cuda/reduce.cuh"
#include "constrain/device/math.hpp"
#include "constrain/op/muon/muon.hpp"
#include "constrain/op/update/step_hyperparameters.hpp"

#include <algorithm>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The number of parts in which the squares of a matrix are summed, at most one per thread of a block. It depends only
/// on the shape, so that the norm is reproducible.
constexpr std::int64_t muon_parts(std::int64_t elements) {
  auto const parts = (elements + cuda_threads - 1) / cuda_threads;
  return parts < cuda_threads ? parts : cuda_threads;
}

/// The arrays of muon's element-wise kernels, each with `count` elements unless noted otherwise. x is the matrix X of
/// the Newton-Schulz iteration. `decays`: whether weight decay applies. norm_and_scale is [norm, scale].
template <class real> struct muon_arrays {
  real const *gradient, *weight, *momentum;
  real *new_momentum, *x;
  double const* norm_and_scale;
  double* squares; // [parts]: the sum of the squares of each part of x
  std::int64_t count;
  bool decays;
};

/// The GEMMs of a Newton-Schulz step for a matrix X [rows, columns]. `gram`, `square` and `next` are the extents of the
/// three GEMMs, in this order: the Gram matrix, its square, and the new X. `side`: rows and columns of the first two
/// results. The Gram matrix is X X^T or, if X is tall, X^T X. `left` and `right`: whether X is transposed as the left
/// and as the right operand of this first GEMM.
struct muon_gemms {
  std::int64_t rows, columns;

  constexpr bool tall() const { return rows > columns; }
  constexpr std::int64_t side() const { return tall() ? columns : rows; }
  constexpr transpose left() const { return tall() ? transpose::yes : transpose::no; }
  constexpr transpose right() const { return tall() ? transpose::no : transpose::yes; }
  constexpr gemm_extents gram() const { return {side(), side(), tall() ? rows : columns}; }
  constexpr gemm_extents square() const { return {side(), side(), side()}; }
  constexpr gemm_extents next() const { return {rows, columns, side()}; }
  /// The number of kernels that a Newton-Schulz step launches; a cuBLASLt GEMM counts as one.
  constexpr int launches() const {
    return 1 + gemm_parts(left(), right(), gram()) + gemm_parts(transpose::no, transpose::no, square()) +
           gemm_parts(transpose::no, transpose::no, next());
  }
};

} // namespace detail

// Computes the new momentum, x before the division by its norm, and the sum of the squares of each part of x; n
// elements per access, here and below. One block per part.
template <int n, class optimizer, class real>
static __global__ void __launch_bounds__(cuda_threads)
    muon_momentum_kernel(detail::muon_arrays<real> arrays, op::step_hyperparameters<optimizer, real> const* hyper) {
  __shared__ block_reduction<double>::memory shared;
  auto const& h = hyper->choose(arrays.decays);
  auto const scale = static_cast<real>(arrays.norm_and_scale[1]), share = h.share;
  bool const nesterov = h.nesterov;
  auto const parts = static_cast<std::int64_t>(gridDim.x), part = static_cast<std::int64_t>(blockIdx.x);
  auto const begin = part_begin(arrays.count / n, parts, part), end = part_begin(arrays.count / n, parts, part + 1);
  double squares = 0;
  CT_KEEP_LOOP
  for (auto pack = begin + threadIdx.x; pack < end; pack += cuda_threads) {
    real g[n], m[n], x[n];
    load_pack(arrays.gradient + pack * n, g), load_pack(arrays.momentum + pack * n, m);
    CT_UNROLL
    for (int j = 0; j < n; ++j) {
      g[j] *= scale;
      m[j] = m[j] + share * (g[j] - m[j]);
      x[j] = nesterov ? m[j] - share * (m[j] - g[j]) : m[j];
      squares += static_cast<double>(x[j]) * static_cast<double>(x[j]);
    }
    store_pack(m, arrays.new_momentum + pack * n), store_pack(x, arrays.x + pack * n);
  }
  squares = block_reduction<double>{shared}.sum(squares);
  if (threadIdx.x == 0) arrays.squares[part] = squares;
}

// x /= max(|x|, epsilon), with the Frobenius norm |x|. Every block adds up the sums of squares of all `parts`.
template <int n, class optimizer, class real>
static __global__ void __launch_bounds__(cuda_threads)
    muon_norm_kernel(detail::muon_arrays<real> arrays, std::int64_t parts,
                     op::step_hyperparameters<optimizer, real> const* hyper) {
  __shared__ block_reduction<double>::memory shared;
  double const part_squares = threadIdx.x < parts ? arrays.squares[threadIdx.x] : 0;
  double const norm = math::sqrt(block_reduction<double>{shared}.sum(part_squares)), epsilon = hyper->other.epsilon;
  auto const divisor = static_cast<real>(norm < epsilon ? epsilon : norm); // NaN stays NaN
  auto const stride = static_cast<std::int64_t>(gridDim.x) * cuda_threads * n;
  CT_KEEP_LOOP
  for (auto i = (static_cast<std::int64_t>(blockIdx.x) * cuda_threads + threadIdx.x) * n; i < arrays.count;
       i += stride) {
    real x[n];
    load_pack(arrays.x + i, x);
    CT_UNROLL
    for (int j = 0; j < n; ++j) x[j] /= divisor;
    store_pack(x, arrays.x + i);
  }
}

// polynomial = a I + b gram + c polynomial, [side, side]. One warp per row.
template <int n, class optimizer, class real>
static __global__ void __launch_bounds__(cuda_threads)
    muon_polynomial_kernel(real const* gram, real* polynomial, std::int64_t side,
                           op::step_hyperparameters<optimizer, real> const* hyper) {
  auto const row = static_cast<std::int64_t>(blockIdx.x) * (cuda_threads / 32) + threadIdx.x / 32;
  if (row >= side) return;
  real const a = hyper->other.a, b = hyper->other.b, c = hyper->other.c;
  CT_KEEP_LOOP
  for (auto i = static_cast<std::int64_t>(threadIdx.x % 32) * n; i < side; i += 32 * n) {
    real first[n], second[n];
    load_pack(gram + row * side + i, first), load_pack(polynomial + row * side + i, second);
    CT_UNROLL
    for (int j = 0; j < n; ++j) {
      real const sum = b * first[j] + c * second[j];
      second[j] = i + j == row ? sum + a : sum;
    }
    store_pack(second, polynomial + row * side + i);
  }
}

// new_weight = (1 - lr weight_decay) weight - rate x, where rate is lr times the factor for the shape [rows, columns].
// If weight decay does not apply, weight_decay is 0.
template <int n, class optimizer, class real>
static __global__ void __launch_bounds__(cuda_threads)
    muon_weight_kernel(detail::muon_arrays<real> arrays, real* new_weight, std::int64_t rows, std::int64_t columns,
                       op::step_hyperparameters<optimizer, real> const* hyper) {
  auto const& h = hyper->choose(arrays.decays);
  auto const rate = static_cast<real>(h.learning_rate(rows, columns)), keep = h.keep;
  auto const stride = static_cast<std::int64_t>(gridDim.x) * cuda_threads * n;
  CT_KEEP_LOOP
  for (auto i = (static_cast<std::int64_t>(blockIdx.x) * cuda_threads + threadIdx.x) * n; i < arrays.count;
       i += stride) {
    real weight[n], x[n];
    load_pack(arrays.weight + i, weight), load_pack(arrays.x + i, x);
    CT_UNROLL
    for (int j = 0; j < n; ++j) weight[j] = weight[j] * keep - rate * x[j];
    store_pack(weight, new_weight + i);
  }
}

template <class optimizer, class architecture> struct kernel<op::muon<optimizer>, cuda<architecture>> {
  static constexpr int steps = optimizer::newton_schulz_steps;

  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const&) {
    detail::muon_gemms const gemms{in[3].shape.extent[0], in[3].shape.extent[1]};
    return {.scratch = gemm_workspace, .launches = 3 + steps * gemms.launches()};
  }
  template <class real>
  static void run(call_of<op::muon<optimizer>> const& c, tensor<real const> gradient,
                  tensor<double const> norm_and_scale, tensor<std::uint8_t const> bytes, tensor<real const> weight,
                  tensor<real const> momentum, tensor<real> new_weight, tensor<real> new_momentum, tensor<real> scratch,
                  tensor<real> gram, tensor<real> polynomial) {
    auto& context = *c.parameters.context;
    auto const* const hyper = reinterpret_cast<op::step_hyperparameters<optimizer, real> const*>(bytes.data);
    detail::muon_gemms const gemms{weight.shape().extent[0], weight.shape().extent[1]};
    auto const parts = detail::muon_parts(weight.count);
    // The sums of squares are in the workspace of the GEMMs, which run after the last read of the sums.
    static_assert(cuda_threads * sizeof(double) <= gemm_workspace);
    detail::muon_arrays<real> arrays{gradient.data,
                                     weight.data,
                                     momentum.data,
                                     new_momentum.data,
                                     new_weight.data,
                                     norm_and_scale.data,
                                     c.template scratch_as<double>(),
                                     weight.count,
                                     c.options.decays};
    auto const launch = [&]<int n>(std::integral_constant<int, n>) {
      auto const grid = dim3(blocks_for(weight.count / n, cuda_threads));
      cuda_launch(context, dim3(static_cast<unsigned>(parts)), cuda_threads, muon_momentum_kernel<n, optimizer, real>,
                  arrays, hyper);
      cuda_launch(context, grid, cuda_threads, muon_norm_kernel<n, optimizer, real>, arrays, parts, hyper);
      auto* next = scratch.data;
      for (int step = 0; step < steps; ++step) {
        newton_schulz_step(c, gemms, hyper, arrays.x, gram.data, polynomial.data, next);
        std::swap(arrays.x, next);
      }
      cuda_launch(context, grid, cuda_threads, muon_weight_kernel<n, optimizer, real>, arrays, new_weight.data,
                  gemms.rows, gemms.columns, hyper);
    };
    with_packs(weight.count, launch, gradient.data, weight.data, momentum.data, new_momentum.data, scratch.data,
               new_weight.data);
  }

private:
  /// Launches one Newton-Schulz step, as on the CPU (op/muon/cpu.hpp): next from x. The GEMMs never round to TF32.
  template <class real>
  static void newton_schulz_step(call const& c, detail::muon_gemms const& gemms,
                                 op::step_hyperparameters<optimizer, real> const* hyper, real const* x, real* gram,
                                 real* polynomial, real* next) {
    auto const multiply = [&](transpose left, transpose right, gemm_extents const& e, real const* a, real const* b,
                              real* y) { gemm(c, left, right, e, a, b, false, y, nullptr, {}, true); };
    multiply(gemms.left(), gemms.right(), gemms.gram(), x, x, gram);
    multiply(transpose::no, transpose::no, gemms.square(), gram, gram, polynomial);
    auto const rows = static_cast<unsigned>((gemms.side() + cuda_threads / 32 - 1) / (cuda_threads / 32));
    auto const launch = [&]<int n>(std::integral_constant<int, n>) {
      cuda_launch(*c.parameters.context, dim3(rows), cuda_threads, muon_polynomial_kernel<n, optimizer, real>, gram,
                  polynomial, gemms.side(), hyper);
    };
    with_packs(gemms.side(), launch, gram, polynomial);
    multiply(transpose::no, transpose::no, gemms.next(), gemms.tall() ? x : polynomial, gemms.tall() ? polynomial : x,
             next);
  }
};

} // namespace constrain
