#pragma once

#include "constrain/op/collective/collective.hpp"
#include "constrain/op/linear/linear.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// y = s + b, where s is the sum of x over the ranks of a tensor group (`step_parameters::tensor`), in rank order: x
/// [..., features], b [features] or absent -> [..., features]. b and y are the same on every rank. Output 1 is the
/// exchange buffer. Like `g` in Megatron-LM (Shoeybi et al. 2019, section 3): the gradient of x is the gradient of y,
/// which every rank has.
struct tensor_sum {
  static constexpr char const* name = "tensor_sum";
  static constexpr unsigned in_place = 0b1;
  static constexpr unsigned workspace = 0b10;
  static constexpr bool exchanges = true;
  static constexpr bool same_data = true;

  static constexpr inferred infer(operand_types const& in) {
    return inferred::one(in[0].type, in[0].shape).and_also(in[0].type, shape(exchange_elements));
  }
  static constexpr void gradient(backward& b) {
    b.add(0, b.gradient());
    if (b.inputs() == 2 && b.needs(1)) b.emit<linear_bias_gradient>({b.gradient()}, {1});
  }
};

/// y = x, where x is the same on all ranks of a tensor group and y is the input of a call that is divided over the
/// ranks. Like `f` in Megatron-LM (Shoeybi et al. 2019, section 3): the gradient of x is the sum of the gradients of y
/// over the ranks.
struct tensor_copy {
  static constexpr char const* name = "tensor_copy";
  static constexpr unsigned in_place = 0b1;

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
  static constexpr void gradient(backward& b) { b.emit<tensor_sum>({b.gradient()}, {0, -1}); }
};

} // namespace constrain::op
