#pragma once

#include "constrain/device/kernel.hpp"
#include "constrain/op/attention/attention.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// One head of one sequence in a tensor [sequences, tokens, heads * head width]: a matrix [tokens, head width].
template <class T> struct head_matrix {
  T* data = nullptr;       // the first element
  std::int64_t stride = 0; // elements from one token to the next
};

/// The heads of a call to attention. `heads`: number of query heads. Heads are numbered consecutively across all
/// sequences: head `index` of the queries reads head `index / group` of the keys and values.
struct attention_heads {
  std::int64_t sequences, tokens, heads, head_width;
  std::int64_t group; // number of query heads that share one key-value head

  /// `queries`: shape of the queries, [sequences, tokens, heads * head width].
  constexpr attention_heads(shape const& queries, attention_options const& options)
      : sequences(queries.extent[0]), tokens(queries.extent[1]), heads(options.heads),
        head_width(queries.features() / heads), group(heads / key_value_heads(options)) {}

  /// Head `index` of `x` [sequences, tokens, heads of x * head width].
  template <class T> head_matrix<T> matrix(tensor<T> const& x, std::int64_t index) const {
    auto const heads_of_x = x.features() / head_width;
    return {x.data + index / heads_of_x * tokens * x.row_stride() + index % heads_of_x * head_width, x.row_stride()};
  }
};

} // namespace constrain::detail
