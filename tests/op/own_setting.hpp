#pragma once

#include <constrain/constrain.hpp>

namespace constrain::test {

/// y = factor * x, with a factor that is read at run time.
struct scaled_op {
  static constexpr char const* name = "scaled";

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
  static constexpr void gradient(backward& b) { b.emit<scaled_op>({b.gradient(), b.input(1)}, {0}); }
};
constexpr value scaled(value x, std::string_view name, double initial) {
  return emit<scaled_op>({x, setting(x, name, initial)});
}

} // namespace constrain::test

template <> struct constrain::kernel<constrain::test::scaled_op, constrain::cpu> {
  template <class real>
  static void run(constrain::call const&, constrain::tensor<real const> x, constrain::tensor<double const> factor,
                  constrain::tensor<real> y) {
    for (std::int64_t i = 0; i < y.count; ++i) y[i] = x[i] * static_cast<real>(factor[0]);
  }
};
