#pragma once

#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

#include <string>

namespace constrain::test {

/// Two linear layers with an activation function between them.
template <value activation(value, int)> struct activation_between_layers {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 7, .width = 6});
    return linear("head", activation(linear("up", x, 8), __LINE__), 5);
  }
};

/// Holds the gradients of a model with the activation function against differences.
template <value activation(value, int)> void check_gradients_of_activation() {
  check_gradients<task<activation_between_layers<activation>{}, causal_lm, micro_batch{.sequences = 2, .tokens = 4}>>();
}

/// Holds an activation function and its derivative, by the input, against PyTorch's.
template <class functor, class real> void check_against_pytorch(std::string const& name) {
  CAPTURE(name);
  fixture const f("ops.safetensors");
  constrain::shape const s(2, 5, 12);
  array<real> const x(s, f.reals(name + ".x")), dy(s, f.reals(name + ".dy"));
  array<real> y(s), dx(s);
  call_kernel<op::elementwise<functor>>(plain, x.in(), y.out());
  CHECK(relative_error(y.values(), f.reals(name + ".y")) < tolerance<real>);
  call_kernel<op::elementwise_gradient<functor>>(plain, dy.in(), x.in(), dx.out());
  CHECK(relative_error(dx.values(), f.reals(name + ".dx")) < tolerance<real>);
}

} // namespace constrain::test
