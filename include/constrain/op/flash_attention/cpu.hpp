#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/cpu/reduce.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/op/flash_attention/backward.hpp"
#include "constrain/op/flash_attention/flash_attention.hpp"
#include "constrain/op/flash_attention/forward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::flash_attention, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::flash_attention> const& c, tensor<stored const> q, tensor<stored const> k,
                  tensor<stored const> v, tensor<stored> y, tensor<accumulate> logsumexp) {
    run(c, q, k, v, tensor<std::int32_t const>(), y, logsumexp);
  }
  template <class stored, class accumulate>
  static void run(call_of<op::flash_attention> const& c, tensor<stored const> q, tensor<stored const> k,
                  tensor<stored const> v, tensor<std::int32_t const> mask, tensor<stored> y,
                  tensor<accumulate> logsumexp) {
    using block = detail::flash_forward<stored, accumulate>;
    static_assert(sizeof(block) <= 512 * 1024, "attention::flash: a thread's tiles need more than 512 KiB of its "
                                               "stack; use smaller tiles");
    detail::attention_heads const h(q.shape(), c.options);
    detail::attention_masks<std::int64_t> const masks(c.options, h.tokens, mask.data);
    auto const blocks = (h.tokens - 1) / block::queries + 1;
    parallel_for(h.sequences * h.heads * blocks, [=](std::int64_t index) {
      auto const head = index / blocks, key_head = head / h.group;
      // With a causal mask, later queries usually attend to more keys. Blocks from the beginning and from the end
      // alternate, to balance the threads.
      auto const position = index % blocks;
      auto const first = (position % 2 == 0 ? position / 2 : blocks - 1 - position / 2) * block::queries;
      block(masks.for_sequence(head / h.heads), h.head_width, h.matrix(q, head), h.matrix(k, key_head),
            h.matrix(v, key_head))
          .run(first, h.matrix(y, head), logsumexp.data + head * h.tokens);
    });
  }
};

template <> struct kernel<op::flash_attention_gradient, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::flash_attention_gradient> const& c, tensor<stored const> dy, tensor<stored const> q,
                  tensor<stored const> k, tensor<stored const> v, tensor<stored const> y,
                  tensor<accumulate const> logsumexp, tensor<stored> dq, tensor<stored> dk, tensor<stored> dv,
                  tensor<accumulate> scratch) {
    run(c, dy, q, k, v, y, logsumexp, tensor<std::int32_t const>(), dq, dk, dv, scratch);
  }
  template <class stored, class accumulate>
  static void run(call_of<op::flash_attention_gradient> const& c, tensor<stored const> dy, tensor<stored const> q,
                  tensor<stored const> k, tensor<stored const> v, tensor<stored const> y,
                  tensor<accumulate const> logsumexp, tensor<std::int32_t const> mask, tensor<stored> dq,
                  tensor<stored> dk, tensor<stored> dv, tensor<accumulate> scratch) {
    using block = detail::flash_backward<stored, accumulate>;
    static_assert(sizeof(block) <= 512 * 1024, "attention::flash: a thread's tiles need more than 512 KiB of its "
                                               "stack; use smaller tiles");
    detail::attention_heads const h(q.shape(), c.options);
    detail::attention_masks<std::int64_t> const masks(c.options, h.tokens, mask.data);
    auto const tokens = h.tokens, heads = h.heads, head_width = h.head_width;
    // scratch begins with sum(dy * y) of each query, [sequences, heads, tokens]. The sums of dk and dv follow, if they
    // have a wider type than dk and dv.
    parallel_chunks(y.rows(), 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t head = 0; head < heads; ++head) {
          auto const first = (row * heads + head) * head_width;
          scratch[(row / tokens * heads + head) * tokens + row % tokens] =
              ordered_sum<accumulate>(first, first + head_width, [=](std::int64_t i) { return dy[i] * y[i]; });
        }
    });
    // One thread computes all query heads that share a key-value head, so dk and dv are summed in order.
    parallel_for(h.sequences * heads / h.group, [=](std::int64_t key_head) {
      auto const sequence_mask = masks.for_sequence(key_head * h.group / heads);
      for (std::int64_t head_in_group = 0; head_in_group < h.group; ++head_in_group) {
        auto const head = key_head * h.group + head_in_group;
        block b(sequence_mask, head_width,
                {.dy = h.matrix(dy, head),
                 .q = h.matrix(q, head),
                 .k = h.matrix(k, key_head),
                 .v = h.matrix(v, key_head),
                 .logsumexp = logsumexp.data + head * tokens,
                 .row_sums = scratch.data + head * tokens,
                 .dq = h.matrix(dq, head),
                 .dk = h.matrix(dk, key_head),
                 .dv = h.matrix(dv, key_head)});
        if (h.group == 1 && tokens <= block::keys && sequence_mask.length == tokens) b.compute_one_tile();
        else {
          auto const sums = b.sums_in(scratch.data + y.rows() * heads + key_head * tokens * 2 * head_width);
          if (head_in_group == 0) b.clear_sums(sums);
          b.add_gradients(sums);
          if (head_in_group == h.group - 1) b.store_sums(sums);
        }
      }
    });
  }
};

} // namespace constrain
