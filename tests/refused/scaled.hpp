#pragma once

// An op outside of the library that reads a setting. It is included after constrain.hpp, which g++ takes compiled only
// as a program's first include.
namespace ct = constrain;

struct scaled_op {
  static constexpr char const* name = "scaled";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(ct::backward& b) { b.emit<scaled_op>({b.gradient(), b.input(1)}, {0}); }
};
template <> struct constrain::kernel<scaled_op, ct::cpu> {
  template <class real>
  static void run(ct::call const&, ct::tensor<real const>, ct::tensor<double const>, ct::tensor<real>) {}
};
