#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    return ct::linear("head", ct::silu(ct::linear("up", x, 8)), 5);
  }
};

} // namespace

TEST_CASE("silu: gradients") {
  check_gradients<ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>>();
}

TEST_CASE_TEMPLATE("silu: as PyTorch", real, float, double) {
  fixture const f("ops.safetensors");
  shape const s(2, 5, 12);
  array<real> const x(s, f.reals("silu.x")), dy(s, f.reals("silu.dy"));
  array<real> y(s), dx(s);
  call_kernel<ct::op::elementwise<ct::op::silu>>(plain, x.in(), y.out());
  CHECK(relative_error(y.values(), f.reals("silu.y")) < tolerance<real>);
  call_kernel<ct::op::elementwise_gradient<ct::op::silu>>(plain, dy.in(), x.in(), dx.out());
  CHECK(relative_error(dx.values(), f.reals("silu.dx")) < tolerance<real>);
}

TEST_CASE_TEMPLATE("silu: finite far from zero", real, float, double) {
  array<real> const x(shape(5), {-1e30, -1000, 0, 1000, 1e30}), dy(shape(5), {1, 1, 1, 1, 1});
  array<real> y(shape(5)), dx(shape(5));
  call_kernel<ct::op::elementwise<ct::op::silu>>(plain, x.in(), y.out());
  call_kernel<ct::op::elementwise_gradient<ct::op::silu>>(plain, dy.in(), x.in(), dx.out());
  real const expected_y[] = {0, 0, 0, 1000, real(1e30)}, expected_dx[] = {0, 0, real(0.5), 1, 1};
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(y[i] == doctest::Approx(static_cast<double>(expected_y[i])));
    CHECK(dx[i] == doctest::Approx(static_cast<double>(expected_dx[i])));
  }
}
