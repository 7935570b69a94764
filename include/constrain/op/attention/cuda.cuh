#pragma once

#include "constrain/device/cuda/gemm_batched.cuh"
#include "constrain/device/cuda/reduce.cuh"
#include "constrain/device/math.hpp"
#include "constrain/op/attention/attention.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Layout of the matrices of all heads in qkv, in the result and in the scores, for batched GEMMs. `batches`: number of
/// matrices in one batched GEMM, one per head of each sequence.
struct attention_heads {
  std::int64_t heads, tokens, width, head_width, batches;

  attention_heads(shape const& qkv, std::int64_t heads_)
      : heads(heads_), tokens(qkv.extent[1]), width(qkv.features() / 3), head_width(width / heads_),
        batches(qkv.extent[0] * heads_) {}

  matrix_batch in_qkv(bool transposed = false) const {
    return {3 * width, transposed, heads, head_width, tokens * 3 * width};
  }
  matrix_batch in_y(bool transposed = false) const { return {width, transposed, heads, head_width, tokens * width}; }
  matrix_batch in_scores(bool transposed = false) const { return {tokens, transposed, 1, 0, tokens * tokens}; }
};

} // namespace detail

// p = softmax(p) over the keys that the row's query attends to, 0 elsewhere; one block per row.
template <class accumulate>
static __global__ void __launch_bounds__(cuda_threads) softmax_kernel(accumulate* p, std::int64_t tokens, bool causal) {
  __shared__ typename block_reduction<accumulate>::memory shared;
  accumulate* x = p + static_cast<std::int64_t>(blockIdx.x) * tokens;
  auto const seen = tokens_seen(blockIdx.x % tokens, tokens, causal);
  accumulate row_max = x[0];
  for (std::int64_t i = threadIdx.x; i < seen; i += cuda_threads) row_max = x[i] > row_max ? x[i] : row_max;
  row_max = block_reduction<accumulate>{shared}.max(row_max);
  accumulate sum = 0;
  for (std::int64_t i = threadIdx.x; i < seen; i += cuda_threads) sum += math::exp(x[i] - row_max);
  accumulate const scale = 1 / block_reduction<accumulate>{shared}.sum(sum);
  for (std::int64_t i = threadIdx.x; i < tokens; i += cuda_threads)
    x[i] = i < seen ? math::exp(x[i] - row_max) * scale : accumulate(0);
}

// The gradient of softmax_kernel, in place: ds = p (ds - sum(p ds)) over the keys that the row's query attends to, 0
// elsewhere; one block per row.
template <class accumulate>
static __global__ void __launch_bounds__(cuda_threads)
    softmax_gradient_kernel(accumulate const* p, accumulate* ds, std::int64_t tokens, bool causal) {
  __shared__ typename block_reduction<accumulate>::memory shared;
  accumulate const* x = p + static_cast<std::int64_t>(blockIdx.x) * tokens;
  accumulate* dx = ds + static_cast<std::int64_t>(blockIdx.x) * tokens;
  auto const seen = tokens_seen(blockIdx.x % tokens, tokens, causal);
  accumulate sum = 0;
  for (std::int64_t i = threadIdx.x; i < seen; i += cuda_threads) sum += x[i] * dx[i];
  sum = block_reduction<accumulate>{shared}.sum(sum);
  for (std::int64_t i = threadIdx.x; i < tokens; i += cuda_threads)
    dx[i] = i < seen ? x[i] * (dx[i] - sum) : accumulate(0);
}

template <class architecture> struct kernel<op::attention, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) { return {.launches = 3}; }
  template <class stored, class accumulate>
  static void run(call_of<op::attention> const& c, tensor<stored const> qkv, tensor<stored> y,
                  tensor<accumulate> probabilities) {
    auto& context = *c.parameters.context;
    detail::attention_heads const h(qkv.shape(), c.options.heads);
    stored const* q = qkv.data;
    auto const scale = 1 / math::sqrt(static_cast<accumulate>(h.head_width));
    // scores = q k^T / sqrt(head width); the softmax turns them into probabilities in place.
    gemm_batched(context, h.batches, h.tokens, h.tokens, h.head_width, scale, q, h.in_qkv(), q + h.width,
                 h.in_qkv(true), probabilities.data, h.in_scores());
    cuda_launch(context, dim3(static_cast<unsigned>(h.batches * h.tokens)), cuda_threads, softmax_kernel<accumulate>,
                probabilities.data, h.tokens, c.options.causal);
    // y = probabilities v
    gemm_batched(context, h.batches, h.tokens, h.head_width, h.tokens, 1, probabilities.data, h.in_scores(),
                 q + 2 * h.width, h.in_qkv(), y.data, h.in_y());
  }
};

template <class architecture> struct kernel<op::attention_gradient, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) { return {.launches = 5}; }
  template <class stored, class accumulate>
  static void run(call_of<op::attention_gradient> const& c, tensor<stored const> dy, tensor<stored const> qkv,
                  tensor<accumulate const> probabilities, tensor<stored> dqkv, tensor<accumulate> dscores) {
    auto& context = *c.parameters.context;
    detail::attention_heads const h(qkv.shape(), c.options.heads);
    stored const* q = qkv.data;
    stored* dq = dqkv.data;
    auto const scale = 1 / math::sqrt(static_cast<accumulate>(h.head_width));
    // dv = probabilities^T dy
    gemm_batched(context, h.batches, h.tokens, h.head_width, h.tokens, 1, probabilities.data, h.in_scores(true),
                 dy.data, h.in_y(), dq + 2 * h.width, h.in_qkv());
    // dprobabilities = dy v^T; softmax_gradient_kernel turns them into the gradient of the scores in place.
    gemm_batched(context, h.batches, h.tokens, h.tokens, h.head_width, 1, dy.data, h.in_y(), q + 2 * h.width,
                 h.in_qkv(true), dscores.data, h.in_scores());
    cuda_launch(context, dim3(static_cast<unsigned>(h.batches * h.tokens)), cuda_threads,
                softmax_gradient_kernel<accumulate>, probabilities.data, dscores.data, h.tokens, c.options.causal);
    // dq = dscores k / sqrt(head width), dk = dscores^T q / sqrt(head width)
    gemm_batched(context, h.batches, h.tokens, h.head_width, h.tokens, scale, dscores.data, h.in_scores(), q + h.width,
                 h.in_qkv(), dq, h.in_qkv());
    gemm_batched(context, h.batches, h.tokens, h.head_width, h.tokens, scale, dscores.data, h.in_scores(true), q,
                 h.in_qkv(), dq + h.width, h.in_qkv());
  }
};

} // namespace constrain
