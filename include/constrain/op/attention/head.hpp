#pragma once

#include "constrain/program/shape.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Where one head of one sequence lies, in elements. `qkv`: offset of the queries of the head; keys and values follow
/// `width` and 2 `width` later, the next token `stride` later. `y`: offset of the result of the head. `scores`: offset
/// of its scores.
struct attention_head {
  std::int64_t tokens, width, stride, head_width, qkv, y, scores;

  attention_head(shape const& qkv_shape, std::int64_t heads, std::int64_t index)
      : tokens(qkv_shape.extent[1]), width(qkv_shape.features() / 3), stride(3 * width), head_width(width / heads) {
    auto const sequence = index / heads;
    auto const head = index % heads;
    qkv = sequence * tokens * stride + head * head_width;
    y = sequence * tokens * width + head * head_width;
    scores = index * tokens * tokens;
  }
};

} // namespace constrain::detail
