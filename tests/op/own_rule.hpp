#pragma once

#include <constrain/constrain.hpp>

#include <cmath>

namespace constrain::test {

// User code: momentum, and a step of the learning rate along a tensor's momentum, divided by its root mean square. The
// rule needs all elements of a tensor, keeps a counter, and checks nothing.
struct normalized_momentum_op {
  struct options {
    bool decays = false; // whether weight decay applies
  };
  static constexpr char const* name = "normalized_momentum";

  static constexpr inferred infer(operand_types const& in) {
    return inferred::one(in[3].type, in[3].shape).and_also(in[4].type, in[4].shape).and_also(dtype::f64, in[5].shape);
  }
};
struct normalized_momentum {
  struct hyper {
    float learning_rate = 0.1f, momentum = 0.9f, weight_decay = 0;
  };
  static constexpr void update(update_rule& u) {
    auto const momentum = u.state("momentum_buffer");
    auto const count = u.state("count", shape(1), dtype::f64, 3);
    auto const next = emit_all<normalized_momentum_op>(
        {u.gradient(), u.scale(), u.hyper(), u.parameter(), momentum, count}, {.decays = u.decays()});
    u.assign(u.parameter(), next[0]);
    u.assign(momentum, next[1]);
    u.assign(count, next[2]);
  }
};

} // namespace constrain::test

template <> struct constrain::kernel<constrain::test::normalized_momentum_op, constrain::cpu> {
  template <class real>
  static void run(constrain::call_of<constrain::test::normalized_momentum_op> const& c,
                  constrain::tensor<real const> gradient, constrain::tensor<double const> norm_and_scale,
                  constrain::tensor<std::uint8_t const> bytes, constrain::tensor<real const> weight,
                  constrain::tensor<real const> momentum, constrain::tensor<double const> count,
                  constrain::tensor<real> new_weight, constrain::tensor<real> new_momentum,
                  constrain::tensor<double> new_count) {
    auto const& h = constrain::op::hyperparameters_of<test::normalized_momentum, real>(bytes).choose(c.options.decays);
    double squares = 0;
    for (std::int64_t i = 0; i < weight.count; ++i) {
      new_momentum[i] = real(h.momentum) * momentum[i] + gradient[i] * static_cast<real>(norm_and_scale[1]);
      squares += static_cast<double>(new_momentum[i]) * static_cast<double>(new_momentum[i]);
    }
    auto const rms = static_cast<real>(std::sqrt(squares / static_cast<double>(weight.count)) + 1e-12);
    for (std::int64_t i = 0; i < weight.count; ++i)
      new_weight[i] = weight[i] * (1 - real(h.learning_rate) * real(h.weight_decay)) -
                      real(h.learning_rate) * new_momentum[i] / rms;
    new_count[0] = count[0] + 1;
  }
};
