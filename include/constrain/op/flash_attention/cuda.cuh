#pragma once

#include "constrain/op/flash_attention/backward.cuh"
#include "constrain/op/flash_attention/flash_attention.hpp"
#include "constrain/op/flash_attention/forward.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

template <class architecture> struct kernel<op::flash_attention, cuda<architecture>> {
  template <class stored, class accumulate>
  static void run(call_of<op::flash_attention> const& c, tensor<stored const> q, tensor<stored const> k,
                  tensor<stored const> v, tensor<stored> y, tensor<accumulate> logsumexp) {
    run(c, q, k, v, tensor<std::int32_t const>(), y, logsumexp);
  }
  template <class stored, class accumulate>
  static void run(call_of<op::flash_attention> const& c, tensor<stored const> q, tensor<stored const> k,
                  tensor<stored const> v, tensor<std::int32_t const> mask, tensor<stored> y,
                  tensor<accumulate> logsumexp) {
    detail::attention_heads const h(q.shape(), c.options);
    detail::flash_call<accumulate> const call(h, {c.options, h.tokens, mask.data}, q, k, v, y);
    detail::flash_operands<stored, accumulate> const operands{q, k, v, y, logsumexp.data};
    detail::with_flash_width<stored>(h.head_width, [&](auto width) {
      constexpr int rows = detail::flash_tiling<stored, width()>::rows;
      detail::flash_launch<rows, width()>(*c.parameters.context, h, h.heads,
                                          flash_attention_kernel<stored, accumulate, width()>, call, operands);
    });
  }
};

template <class architecture> struct kernel<op::flash_attention_gradient, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) { return {.launches = 2}; }
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
    detail::attention_heads const h(q.shape(), c.options);
    detail::flash_call<accumulate> const call(h, {c.options, h.tokens, mask.data}, dy, q, k, v, y, dq, dk, dv);
    detail::flash_gradient_operands<stored, accumulate> const operands{
        dy, q, k, v, y, dq, dk, dv, logsumexp.data, scratch.data};
    auto& context = *c.parameters.context;
    detail::with_flash_width<stored>(h.head_width, [&](auto width) {
      constexpr int rows = detail::flash_tiling<stored, width()>::rows;
      // The kernel for dq also stores -sum(dy y) of each query, which the kernel for dk and dv reads.
      detail::flash_launch<rows, width()>(context, h, h.heads,
                                          flash_gradient_kernel<false, stored, accumulate, width()>, call, operands);
    });
    // Only the widest kernel of dk and dv supports documents (flash_gradient_block::supports_documents).
    auto const width_of_keys = call.masks.has_documents ? detail::flash_widest<stored> : h.head_width;
    detail::with_flash_width<stored>(width_of_keys, [&](auto width) {
      constexpr int rows = detail::flash_tiling<stored, width()>::rows;
      detail::flash_launch<rows, width()>(context, h, h.heads / h.group,
                                          flash_gradient_kernel<true, stored, accumulate, width()>, call, operands);
    });
  }
};

} // namespace constrain
