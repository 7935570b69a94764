#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/position_embedding/position_embedding.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: y[i] = x[i] + the table's element for the position and feature of x[i].
template <class stored> struct position_embedding_elements {
  stored const* x;
  stored const* table;
  stored* y;
  std::int64_t sequence_elements; // elements of one sequence: tokens * width

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = x[i] + table[i % sequence_elements]; }
};

template <class device> struct kernel<op::position_embedding, device> {
  template <class stored>
  static void run(call const& c, tensor<stored const> x, tensor<stored const> table, tensor<stored> y) {
    auto const sequence_elements = x.shape().extent[1] * x.features();
    for_elements(device{}, c, y.count,
                 position_embedding_elements<stored>{x.data, table.data, y.data, sequence_elements});
  }
};

/// Loop body of the kernel: dtable[i] = the sum of dy over the sequences, at the position and feature of dtable[i]. If
/// `add`, the sum is added to dtable[i] instead.
template <class stored, class accumulate> struct position_embedding_gradient_elements {
  stored const* dy;
  accumulate* dtable;
  std::int64_t sequences, sequence_elements; // number of sequences; elements of one sequence: tokens * width
  bool add;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    accumulate sum = add ? dtable[i] : accumulate(0);
    if (i < sequence_elements) // the table may have more positions than dy
      for (std::int64_t b = 0; b < sequences; ++b) sum += dy[b * sequence_elements + i];
    dtable[i] = sum;
  }
};

template <class device> struct kernel<op::position_embedding_gradient, device> {
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<accumulate> dtable) {
    auto const sequence_elements = dy.shape().extent[1] * dy.features();
    for_elements(device{}, c, dtable.count,
                 position_embedding_gradient_elements<stored, accumulate>{dy.data, dtable.data, dy.shape().extent[0],
                                                                          sequence_elements, c.add_to(0)});
  }
};

} // namespace constrain
