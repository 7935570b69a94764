#pragma once

#include "constrain/device/cuda/gemm_batched.cuh"
#include "constrain/device/cuda/reduce.cuh"
#include "constrain/device/math.hpp"
#include "constrain/op/attention/attention.hpp"
#include "constrain/op/attention/head.hpp"
#include "constrain/op/attention/mask.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The matrices of all heads in `x` [sequences, tokens, heads of x * head width], for batched GEMMs. `group`: number of
/// query heads that share one head of x. `transposed`: whether the GEMM reads each matrix as [head width, tokens].
template <class T>
matrix_batch heads_in(tensor<T> const& x, attention_heads const& h, std::int64_t group = 1, bool transposed = false) {
  return {x.row_stride(), transposed, h.heads / group, h.head_width, h.tokens * x.row_stride(), group};
}
/// The matrices of the scores, [sequences, heads, tokens, tokens], for batched GEMMs. `transposed`: whether the GEMM
/// reads each matrix as [keys, queries].
inline matrix_batch scores_of(attention_heads const& h, bool transposed = false) {
  return {h.tokens, transposed, 1, 0, h.tokens * h.tokens};
}

} // namespace detail

// p = softmax(p) over the keys that the row's query attends to, 0 elsewhere; one block per row of p [sequences, heads,
// tokens, tokens], n elements per access. `rows`: number of rows of one sequence. If the query attends to no key, the
// row becomes 0.
template <int n, class accumulate>
static __global__ void __launch_bounds__(cuda_threads)
    softmax_kernel(accumulate* p, detail::attention_masks<std::int64_t> masks, std::int64_t rows) {
  __shared__ typename block_reduction<accumulate>::memory shared;
  auto const tokens = masks.tokens;
  accumulate* x = p + static_cast<std::int64_t>(blockIdx.x) * tokens;
  auto const keys = masks.for_sequence(blockIdx.x / rows).keys(blockIdx.x % tokens);
  auto const first = static_cast<std::int64_t>(threadIdx.x) * n, first_key = keys.begin / n * n + first;
  accumulate values[n], row_max = x[keys.begin], sum = 0;
  for (auto i = first_key; i < keys.end; i += cuda_threads * n) {
    load_pack(x + i, values);
    CT_UNROLL
    for (int j = 0; j < n; ++j) row_max = keys.contains(i + j, 1) && values[j] > row_max ? values[j] : row_max;
  }
  row_max = block_reduction<accumulate>{shared}.max(row_max);
  for (auto i = first_key; i < keys.end; i += cuda_threads * n) {
    load_pack(x + i, values);
    CT_UNROLL
    for (int j = 0; j < n; ++j) sum += keys.contains(i + j, 1) ? math::exp(values[j] - row_max) : 0;
  }
  accumulate const scale = 1 / block_reduction<accumulate>{shared}.sum(sum);
  for (auto i = first; i < tokens; i += cuda_threads * n) {
    load_pack(x + i, values);
    CT_UNROLL
    for (int j = 0; j < n; ++j) values[j] = keys.contains(i + j, 1) ? math::exp(values[j] - row_max) * scale : 0;
    store_pack(values, x + i);
  }
}

// The gradient of softmax_kernel, in place: ds = p (ds - sum(p ds)) over the keys that the row's query attends to, 0
// elsewhere; one block per row, n elements per access. p is 0 where only lengths or documents exclude a key, so `masks`
// needs neither. Without lengths and documents, all sequences have the same mask.
template <int n, class accumulate>
static __global__ void __launch_bounds__(cuda_threads)
    softmax_gradient_kernel(accumulate const* p, accumulate* ds, detail::attention_masks<std::int64_t> masks) {
  __shared__ typename block_reduction<accumulate>::memory shared;
  auto const tokens = masks.tokens;
  accumulate const* x = p + static_cast<std::int64_t>(blockIdx.x) * tokens;
  accumulate* dx = ds + static_cast<std::int64_t>(blockIdx.x) * tokens;
  auto const keys = masks.for_sequence(0).keys(blockIdx.x % tokens);
  auto const first = static_cast<std::int64_t>(threadIdx.x) * n;
  accumulate values[n], gradients[n], sum = 0;
  for (auto i = keys.begin / n * n + first; i < keys.end; i += cuda_threads * n) {
    load_pack(x + i, values), load_pack(dx + i, gradients);
    CT_UNROLL
    for (int j = 0; j < n; ++j) sum += keys.contains(i + j, 1) ? values[j] * gradients[j] : 0;
  }
  sum = block_reduction<accumulate>{shared}.sum(sum);
  for (auto i = first; i < tokens; i += cuda_threads * n) {
    load_pack(x + i, values), load_pack(dx + i, gradients);
    CT_UNROLL
    for (int j = 0; j < n; ++j) gradients[j] = keys.contains(i + j, 1) ? values[j] * (gradients[j] - sum) : 0;
    store_pack(gradients, dx + i);
  }
}

template <class architecture> struct kernel<op::attention, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const&,
                                         attention_options const& o) {
    detail::attention_heads const h(in[0].shape, o);
    return {.launches = 1 + 2 * launches_of_gemm_batched(h.sequences * h.heads)};
  }
  template <class stored, class accumulate>
  static void run(call_of<op::attention> const& c, tensor<stored const> q, tensor<stored const> k,
                  tensor<stored const> v, tensor<stored> y, tensor<accumulate> probabilities) {
    run(c, q, k, v, tensor<std::int32_t const>(), y, probabilities);
  }
  template <class stored, class accumulate>
  static void run(call_of<op::attention> const& c, tensor<stored const> q, tensor<stored const> k,
                  tensor<stored const> v, tensor<std::int32_t const> mask, tensor<stored> y,
                  tensor<accumulate> probabilities) {
    auto& context = *c.parameters.context;
    detail::attention_heads const h(q.shape(), c.options);
    auto const matrices = h.sequences * h.heads;
    auto const scale = 1 / math::sqrt(static_cast<accumulate>(h.head_width));
    // scores = q k^T / sqrt(head width); the softmax turns them into probabilities in place.
    gemm_batched(context, matrices, h.tokens, h.tokens, h.head_width, scale, q.data, detail::heads_in(q, h), k.data,
                 detail::heads_in(k, h, h.group, true), probabilities.data, detail::scores_of(h));
    auto const softmax = [&]<int n>(std::integral_constant<int, n>) {
      cuda_launch(context, dim3(static_cast<unsigned>(matrices * h.tokens)), cuda_threads,
                  softmax_kernel<n, accumulate>, probabilities.data, {c.options, h.tokens, mask.data},
                  h.heads * h.tokens);
    };
    with_packs(h.tokens, softmax, probabilities.data);
    // y = probabilities v
    gemm_batched(context, matrices, h.tokens, h.head_width, h.tokens, 1, probabilities.data, detail::scores_of(h),
                 v.data, detail::heads_in(v, h, h.group), y.data, detail::heads_in(y, h));
  }
};

template <class architecture> struct kernel<op::attention_gradient, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const&,
                                         attention_options const& o) {
    detail::attention_heads const h(in[1].shape, o);
    auto const matrices = h.sequences * h.heads;
    return {.launches = 1 + 2 * launches_of_gemm_batched(matrices) + 2 * launches_of_gemm_batched(matrices / h.group)};
  }
  template <class stored, class accumulate>
  static void run(call_of<op::attention_gradient> const& c, tensor<stored const> dy, tensor<stored const> q,
                  tensor<stored const> k, tensor<stored const> v, tensor<accumulate const> probabilities,
                  tensor<stored> dq, tensor<stored> dk, tensor<stored> dv, tensor<accumulate> dscores) {
    auto& context = *c.parameters.context;
    detail::attention_heads const h(q.shape(), c.options);
    auto const matrices = h.sequences * h.heads;
    auto const scale = 1 / math::sqrt(static_cast<accumulate>(h.head_width));
    detail::attention_masks<std::int64_t> const masks(c.options, h.tokens, nullptr);
    // dv = probabilities^T dy, summed over the query heads that share a head of v
    gemm_batched(context, matrices, h.tokens, h.head_width, h.tokens, 1, probabilities.data, detail::scores_of(h, true),
                 dy.data, detail::heads_in(dy, h), dv.data, detail::heads_in(dv, h, h.group));
    // dprobabilities = dy v^T; softmax_gradient_kernel turns them into the gradient of the scores in place.
    gemm_batched(context, matrices, h.tokens, h.tokens, h.head_width, 1, dy.data, detail::heads_in(dy, h), v.data,
                 detail::heads_in(v, h, h.group, true), dscores.data, detail::scores_of(h));
    auto const softmax_gradient = [&]<int n>(std::integral_constant<int, n>) {
      cuda_launch(context, dim3(static_cast<unsigned>(matrices * h.tokens)), cuda_threads,
                  softmax_gradient_kernel<n, accumulate>, probabilities.data, dscores.data, masks);
    };
    with_packs(h.tokens, softmax_gradient, probabilities.data, dscores.data);
    // dq = dscores k / sqrt(head width)
    // dk = dscores^T q / sqrt(head width), summed over the query heads that share a head of k
    gemm_batched(context, matrices, h.tokens, h.head_width, h.tokens, scale, dscores.data, detail::scores_of(h), k.data,
                 detail::heads_in(k, h, h.group), dq.data, detail::heads_in(dq, h));
    gemm_batched(context, matrices, h.tokens, h.head_width, h.tokens, scale, dscores.data, detail::scores_of(h, true),
                 q.data, detail::heads_in(q, h), dk.data, detail::heads_in(dk, h, h.group));
  }
};

} // namespace constrain
