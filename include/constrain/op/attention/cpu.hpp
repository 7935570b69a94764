#pragma once

#include "constrain/device/cpu/gemm.hpp"
#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/cpu/reduce.hpp"
#include "constrain/device/cpu/softmax.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/op/attention/attention.hpp"
#include "constrain/op/attention/head.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::attention, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::attention> const& c, tensor<stored const> qkv, tensor<stored> y,
                  tensor<accumulate> probabilities) {
    std::int64_t const heads = c.options.heads;
    bool const causal = c.options.causal;
    parallel_for(qkv.shape().extent[0] * heads, [=](std::int64_t index) {
      detail::attention_head const h(qkv.shape(), heads, index);
      stored const* q = qkv.data + h.qkv;
      accumulate* p = probabilities.data + h.scores;
      auto const scale = 1 / math::sqrt(static_cast<accumulate>(h.head_width));
      // scores = q k^T / sqrt(head width); the softmax turns them into probabilities in place.
      gemm(transpose::no, transpose::yes, h.tokens, h.tokens, h.head_width, scale, q, h.stride, q + h.width, h.stride,
           0, p, h.tokens);
      for (std::int64_t t = 0; t < h.tokens; ++t) {
        auto const seen = causal ? t + 1 : h.tokens;
        softmax_row(p + t * h.tokens, seen);
        for (std::int64_t s = seen; s < h.tokens; ++s) p[t * h.tokens + s] = 0;
      }
      // y = probabilities v
      gemm(transpose::no, transpose::no, h.tokens, h.head_width, h.tokens, 1, p, h.tokens, q + 2 * h.width, h.stride, 0,
           y.data + h.y, h.width);
    });
  }
};

template <> struct kernel<op::attention_gradient, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::attention_gradient> const& c, tensor<stored const> dy, tensor<stored const> qkv,
                  tensor<accumulate const> probabilities, tensor<stored> dqkv, tensor<accumulate> dscores) {
    std::int64_t const heads = c.options.heads;
    bool const causal = c.options.causal;
    parallel_for(qkv.shape().extent[0] * heads, [=](std::int64_t index) {
      detail::attention_head const h(qkv.shape(), heads, index);
      stored const* q = qkv.data + h.qkv;
      accumulate const* p = probabilities.data + h.scores;
      stored const* g = dy.data + h.y;
      stored* dq = dqkv.data + h.qkv;
      accumulate* ds = dscores.data + h.scores;
      auto const scale = 1 / math::sqrt(static_cast<accumulate>(h.head_width));
      // dv = probabilities^T dy
      gemm(transpose::yes, transpose::no, h.tokens, h.head_width, h.tokens, 1, p, h.tokens, g, h.width, 0,
           dq + 2 * h.width, h.stride);
      // dprobabilities = dy v^T; the loop turns them into the gradient of the scores in place.
      gemm(transpose::no, transpose::yes, h.tokens, h.tokens, h.head_width, 1, g, h.width, q + 2 * h.width, h.stride, 0,
           ds, h.tokens);
      for (std::int64_t t = 0; t < h.tokens; ++t) {
        auto const seen = causal ? t + 1 : h.tokens;
        accumulate const* row = p + t * h.tokens;
        accumulate* drow = ds + t * h.tokens;
        accumulate const sum = ordered_sum<accumulate>(0, seen, [=](std::int64_t s) { return row[s] * drow[s]; });
        CONSTRAIN_SIMD
        for (std::int64_t s = 0; s < seen; ++s) drow[s] = row[s] * (drow[s] - sum);
        for (std::int64_t s = seen; s < h.tokens; ++s) drow[s] = 0;
      }
      // dq = dscores k / sqrt(head width), dk = dscores^T q / sqrt(head width)
      gemm(transpose::no, transpose::no, h.tokens, h.head_width, h.tokens, scale, ds, h.tokens, q + h.width, h.stride,
           0, dq, h.stride);
      gemm(transpose::yes, transpose::no, h.tokens, h.head_width, h.tokens, scale, ds, h.tokens, q, h.stride, 0,
           dq + h.width, h.stride);
    });
  }
};

} // namespace constrain
