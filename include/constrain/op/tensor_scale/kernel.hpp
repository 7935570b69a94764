#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/device/math.hpp"
#include "constrain/op/tensor_scale/tensor_scale.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Body of the kernel's loop, which has one iteration. The first call in a run of the program sets all elements of
/// `squares` to 0 before it adds to one of them, because the first write of an accumulator must define all its
/// elements.
struct tensor_scale_element {
  double const* squared_norm;
  double* norm_and_scale; // [norm, scale]
  double* squares;
  std::int64_t gradient_count, index; // number of elements of `squares`; index of the element to add to
  bool zeroes;                        // whether this is the first call in a run of the program

  CT_HOST_DEVICE void operator()(std::int64_t) const {
    if (zeroes)
      for (std::int64_t i = 0; i < gradient_count; ++i) squares[i] = 0;
    squares[index] += *squared_norm;
    norm_and_scale[0] = math::sqrt(*squared_norm);
    norm_and_scale[1] = math::finite(norm_and_scale[0]) ? 1 : 0;
  }
};

template <class device> struct kernel<op::tensor_scale, device> {
  static void run(call_of<op::tensor_scale> const& c, tensor<double const> squared_norm, tensor<double> norm_and_scale,
                  tensor<double> squares) {
    tensor_scale_element const body{squared_norm.data, norm_and_scale.data, squares.data,
                                    squares.count,     c.options.index,     !c.add_to(1)};
    for_elements(device{}, c, 1, body);
  }
};

} // namespace constrain
