#pragma once

#include "constrain/device/cuda/multi_tensor.cuh"
#include "constrain/device/cuda/reduce.cuh"
#include "constrain/op/sum_parts/sum_parts.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

/// One launch computes the sums of all merged calls.
template <class architecture> struct kernel<op::sum_parts, cuda<architecture>> {
  template <class real> using tensors_of = multi_tensor<parts_to_sum<real>>;

  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) {
    return {.merged = tensors_of<float>::capacity};
  }
  template <class real> static void run(call const& c, tensor<real const> x, tensor<real> y) {
    auto& context = *c.parameters.context;
    auto& tensors = context.template pending<tensors_of<real>>(c);
    static_assert(tensors_of<real>::capacity == tensors_of<float>::capacity);
    auto const width = y.features();
    tensors.add(c, {x.data, y.data, width, width, x.shape().rows(), y.count / width, c.add_to(0) ? 1 : 0});
    if (!c.more_tensors_follow) start_sum_parts(context, tensors, tensors.count);
  }
};

} // namespace constrain
