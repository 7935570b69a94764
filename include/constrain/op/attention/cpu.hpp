#pragma once

#include "constrain/device/cpu/gemm.hpp"
#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/cpu/reduce.hpp"
#include "constrain/device/cpu/softmax.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/op/attention/attention.hpp"
#include "constrain/op/attention/head.hpp"
#include "constrain/op/attention/mask.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::attention, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::attention> const& c, tensor<stored const> q, tensor<stored const> k,
                  tensor<stored const> v, tensor<stored> y, tensor<accumulate> probabilities) {
    run(c, q, k, v, tensor<std::int32_t const>(), y, probabilities);
  }
  template <class stored, class accumulate>
  static void run(call_of<op::attention> const& c, tensor<stored const> q, tensor<stored const> k,
                  tensor<stored const> v, tensor<std::int32_t const> mask, tensor<stored> y,
                  tensor<accumulate> probabilities) {
    detail::attention_heads const h(q.shape(), c.options);
    detail::attention_masks<std::int64_t> const masks(c.options, h.tokens, mask.data);
    parallel_for(h.sequences * h.heads, [=](std::int64_t index) {
      auto const queries = h.matrix(q, index), keys = h.matrix(k, index / h.group),
                 values = h.matrix(v, index / h.group);
      auto const result = h.matrix(y, index);
      accumulate* p = probabilities.data + index * h.tokens * h.tokens;
      auto const scale = 1 / math::sqrt(static_cast<accumulate>(h.head_width));
      // scores = q k^T / sqrt(head width); the softmax turns them into probabilities in place.
      gemm(transpose::no, transpose::yes, h.tokens, h.tokens, h.head_width, scale, queries.data, queries.stride,
           keys.data, keys.stride, 0, p, h.tokens);
      auto const sequence_mask = masks.for_sequence(index / h.heads);
      for (std::int64_t t = 0; t < h.tokens; ++t) {
        auto const [begin, end] = sequence_mask.keys(t);
        accumulate* const row = p + t * h.tokens;
        if (begin < end) softmax_row(row + begin, end - begin);
        for (std::int64_t s = 0; s < begin; ++s) row[s] = 0;
        for (std::int64_t s = end; s < h.tokens; ++s) row[s] = 0;
      }
      // y = probabilities v
      gemm(transpose::no, transpose::no, h.tokens, h.head_width, h.tokens, 1, p, h.tokens, values.data, values.stride,
           0, result.data, result.stride);
    });
  }
};

template <> struct kernel<op::attention_gradient, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::attention_gradient> const& c, tensor<stored const> dy, tensor<stored const> q,
                  tensor<stored const> k, tensor<stored const> v, tensor<accumulate const> probabilities,
                  tensor<stored> dq, tensor<stored> dk, tensor<stored> dv, tensor<accumulate> dscores) {
    detail::attention_heads const h(q.shape(), c.options);
    // The masks need neither lengths nor documents, because p is 0 where only these exclude a key. Without lengths and
    // documents, all sequences have the same mask.
    detail::attention_masks<std::int64_t> const masks(c.options, h.tokens, nullptr);
    // One thread computes all query heads that share a key-value head, so dk and dv are summed in order.
    parallel_for(h.sequences * h.heads / h.group, [=](std::int64_t key_index) {
      auto const keys = h.matrix(k, key_index), values = h.matrix(v, key_index);
      auto const dkeys = h.matrix(dk, key_index), dvalues = h.matrix(dv, key_index);
      auto const scale = 1 / math::sqrt(static_cast<accumulate>(h.head_width));
      for (std::int64_t head_in_group = 0; head_in_group < h.group; ++head_in_group) {
        auto const index = key_index * h.group + head_in_group;
        auto const queries = h.matrix(q, index), dresult = h.matrix(dy, index);
        auto const dqueries = h.matrix(dq, index);
        accumulate const* p = probabilities.data + index * h.tokens * h.tokens;
        accumulate* ds = dscores.data + index * h.tokens * h.tokens;
        accumulate const beta = head_in_group == 0 ? 0 : 1; // 0 overwrites dk and dv, 1 adds to them
        // dv (+)= probabilities^T dy
        gemm(transpose::yes, transpose::no, h.tokens, h.head_width, h.tokens, 1, p, h.tokens, dresult.data,
             dresult.stride, beta, dvalues.data, dvalues.stride);
        // dprobabilities = dy v^T; softmax_gradient turns them into the gradient of the scores in place.
        gemm(transpose::no, transpose::yes, h.tokens, h.tokens, h.head_width, 1, dresult.data, dresult.stride,
             values.data, values.stride, 0, ds, h.tokens);
        softmax_gradient(p, ds, masks.for_sequence(0));
        // dq = dscores k / sqrt(head width), dk (+)= dscores^T q / sqrt(head width)
        gemm(transpose::no, transpose::no, h.tokens, h.head_width, h.tokens, scale, ds, h.tokens, keys.data,
             keys.stride, 0, dqueries.data, dqueries.stride);
        gemm(transpose::yes, transpose::no, h.tokens, h.head_width, h.tokens, scale, ds, h.tokens, queries.data,
             queries.stride, beta, dkeys.data, dkeys.stride);
      }
    });
  }

private:
  // ds = p (ds - sum(p ds)) over the keys that the row's query attends to, 0 elsewhere.
  template <class accumulate>
  static void softmax_gradient(accumulate const* p, accumulate* ds, detail::attention_mask<std::int64_t> const& mask) {
    for (std::int64_t t = 0; t < mask.masks.tokens; ++t) {
      auto const attended = mask.keys(t);
      auto const begin = attended.begin, end = attended.end;
      accumulate const* row = p + t * mask.masks.tokens;
      accumulate* drow = ds + t * mask.masks.tokens;
      accumulate const sum = ordered_sum<accumulate>(begin, end, [=](std::int64_t s) { return row[s] * drow[s]; });
      CONSTRAIN_SIMD
      for (std::int64_t s = begin; s < end; ++s) drow[s] = row[s] * (drow[s] - sum);
      for (std::int64_t s = 0; s < begin; ++s) drow[s] = 0;
      for (std::int64_t s = end; s < mask.masks.tokens; ++s) drow[s] = 0;
    }
  }
};

} // namespace constrain
