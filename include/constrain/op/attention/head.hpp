#pragma once

#include "constrain/program/shape.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The layout of head `index` % heads of sequence `index` / heads, in elements. `qkv`: offset of the head's queries in
/// qkv [sequences, tokens, 3 width]; the keys are `width` later, the values 2 `width`, the next token `stride`. `y`:
/// offset of the head's result in y [sequences, tokens, width]; the next token is `width` later. `scores`: offset of
/// the head's scores in [sequences, heads, tokens, tokens].
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
