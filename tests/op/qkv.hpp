#pragma once

#include "op/call_kernel.hpp"

namespace constrain::test {

/// Queries, keys and values, or their gradients, side by side in the rows of one array: strided operands.
template <class T> class qkv_operands {
public:
  /// `first`: element 0 of an array of shape `qkv`, [sequences, tokens, (heads + 2 key_value_heads) * head width].
  qkv_operands(T& first, shape const& qkv, attention_options const& o)
      : data_(&first), row_stride_(qkv.features()),
        query_shape_(qkv.with_features(qkv.features() / (o.heads + 2 * detail::key_value_heads(o)) * o.heads)),
        key_shape_(qkv.with_features((qkv.features() - query_shape_.features()) / 2)) {}

  tensor<T> q() const { return part(query_shape_, 0); }
  tensor<T> k() const { return part(key_shape_, query_shape_.features()); }
  tensor<T> v() const { return part(key_shape_, query_shape_.features() + key_shape_.features()); }

  /// The elements of a part in an array of its own.
  static array<std::remove_const_t<T>> contiguous(tensor<T> const& part) {
    array<std::remove_const_t<T>> copy(part.shape());
    for (std::int64_t i = 0; i < part.count; ++i)
      copy[static_cast<std::size_t>(i)] = part.data[i / part.features() * part.row_stride() + i % part.features()];
    return copy;
  }

private:
  tensor<T> part(shape const& s, std::int64_t begin) const { return {data_ + begin, &s, s.elements(), row_stride_}; }

  T* data_;
  std::int64_t row_stride_;
  shape query_shape_, key_shape_;
};

} // namespace constrain::test
