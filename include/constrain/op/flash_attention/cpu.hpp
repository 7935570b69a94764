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
  static void run(call_of<op::flash_attention> const& c, tensor<stored const> qkv, tensor<stored> y,
                  tensor<accumulate> logsumexp) {
    using block = detail::flash_forward<stored, accumulate>;
    static_assert(sizeof(block) <= 512 * 1024, "attention::flash: a thread's tiles need more than 512 KiB of its "
                                               "stack; use smaller tiles");
    std::int64_t const heads = c.options.heads;
    bool const causal = c.options.causal;
    auto const tokens = qkv.shape().extent[1];
    auto const blocks = (tokens - 1) / block::queries + 1;
    parallel_for(qkv.shape().extent[0] * heads * blocks, [=](std::int64_t index) {
      detail::attention_head const h(qkv.shape(), heads, index / blocks);
      // With a causal mask, later queries attend to more keys. Blocks from the begin and the end take turns, to balance
      // the threads.
      auto const position = index % blocks;
      auto const first = (position % 2 == 0 ? position / 2 : blocks - 1 - position / 2) * block::queries;
      block(h, causal, qkv.data).run(first, y.data, logsumexp.data + index / blocks * tokens);
    });
  }
};

template <> struct kernel<op::flash_attention_gradient, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::flash_attention_gradient> const& c, tensor<stored const> dy, tensor<stored const> qkv,
                  tensor<stored const> y, tensor<accumulate const> logsumexp, tensor<stored> dqkv,
                  tensor<accumulate> scratch) {
    using block = detail::flash_backward<stored, accumulate>;
    static_assert(sizeof(block) <= 512 * 1024, "attention::flash: a thread's tiles need more than 512 KiB of its "
                                               "stack; use smaller tiles");
    std::int64_t const heads = c.options.heads;
    bool const causal = c.options.causal;
    auto const tokens = qkv.shape().extent[1];
    auto const head_width = y.features() / heads;
    // scratch begins with sum(dy * y) of each query, [sequences, heads, tokens]; the sums of dk and dv follow.
    parallel_chunks(y.rows(), 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t head = 0; head < heads; ++head) {
          auto const at = (row * heads + head) * head_width;
          scratch[(row / tokens * heads + head) * tokens + row % tokens] =
              ordered_sum<accumulate>(at, at + head_width, [=](std::int64_t i) { return dy[i] * y[i]; });
        }
    });
    parallel_for(y.rows() / tokens * heads, [=](std::int64_t index) {
      auto const at = index * tokens;
      detail::attention_head const h(qkv.shape(), heads, index);
      block b(h, causal, dy.data, qkv.data, logsumexp.data + at, scratch.data + at, dqkv.data);
      if (tokens <= block::keys) b.all_gradients_of_one_tile();
      else b.all_gradients(scratch.data + y.rows() * heads + at * 2 * head_width);
    });
  }
};

} // namespace constrain
