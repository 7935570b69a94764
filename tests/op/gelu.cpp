#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

struct model {
  bool tanh;
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::linear("up", ct::embedding("token", tokens, {.vocabulary = 7, .width = 6}), 8);
    return ct::linear("head", tanh ? ct::gelu_tanh(x) : ct::gelu(x), 5);
  }
};

template <class functor, class real> void check_oracle(std::string const& name) {
  CAPTURE(name);
  fixture const f("ops.safetensors");
  shape const s(2, 5, 12);
  array<real> const x(s, f.reals(name + ".x")), dy(s, f.reals(name + ".dy"));
  array<real> y(s), dx(s);
  call_kernel<ct::op::elementwise<functor>>(plain, x.in(), y.out());
  CHECK(relative_error(y.values(), f.reals(name + ".y")) < tolerance<real>);
  call_kernel<ct::op::elementwise_gradient<functor>>(plain, dy.in(), x.in(), dx.out());
  CHECK(relative_error(dx.values(), f.reals(name + ".dx")) < tolerance<real>);
}

// Both forms are x on the right and 0 on the left.
template <class functor, class real> void check_far_from_zero() {
  array<real> const x(shape(4), {-1e4, -30, 30, 1e4}), dy(shape(4), {1, 1, 1, 1});
  array<real> y(shape(4)), dx(shape(4));
  call_kernel<ct::op::elementwise<functor>>(plain, x.in(), y.out());
  call_kernel<ct::op::elementwise_gradient<functor>>(plain, dy.in(), x.in(), dx.out());
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(std::abs(y[i] - (i < 2 ? real(0) : x[i])) < 1e-30);
    CHECK(std::abs(dx[i] - (i < 2 ? real(0) : real(1))) < 1e-30);
  }
}

} // namespace

TEST_CASE("gelu: gradients of both forms") {
  check_gradients<ct::task<model{false}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>>();
  check_gradients<ct::task<model{true}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>>();
}

TEST_CASE_TEMPLATE("gelu: both forms as PyTorch", real, float, double) {
  check_oracle<ct::op::gelu, real>("gelu");
  check_oracle<ct::op::gelu_tanh, real>("gelu_tanh");
}

TEST_CASE_TEMPLATE("gelu: far from zero", real, float, double) {
  check_far_from_zero<ct::op::gelu, real>();
  check_far_from_zero<ct::op::gelu_tanh, real>();
}
