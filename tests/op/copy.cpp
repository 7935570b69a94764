#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

static_assert(ct::info_of<ct::op::copy>.infer(types({f32(shape(2, 3))}), {}).outputs[0] == f32(shape(2, 3)));
static_assert(ct::info_of<ct::op::copy>.accumulating == 1);

// A model writes no copies; these two keep theirs, for the first and the last value of a repeat are read elsewhere too.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 4});
    auto const y = ct::repeat("a", 2, x, [](ct::value x) { return x; });
    return y + ct::repeat("b", 2, x, [](ct::value x) { return ct::linear("inner", x, 4); });
  }
};

} // namespace

TEST_CASE("copy: gradients") {
  using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;
  check_gradients<task>();
  check_gradients<task, ct::accumulate<2>>();
}

TEST_CASE_TEMPLATE("copy: writes or adds", real, float, double) {
  auto const x = array<real>::random(shape(3, 5), 1);
  array<real> y(shape(3, 5));
  call_kernel<ct::op::copy>(plain, x.in(), y.out());
  CHECK(same_bits(y.values(), x.values()));
  call_kernel<ct::op::copy>(adding(1), x.in(), y.out());
  for (std::size_t i = 0; i < 15; ++i) CHECK(y[i] == x[i] + x[i]);
}
