#include "policy/small_gpt.hpp"

#include <doctest/doctest.h>

// A kernel reads the seed and the number of steps in every entry: an op may draw random numbers in evaluation too.

namespace ct = constrain;
using namespace constrain::test;

namespace {

/// y = the seed and the step of the run, in place of x: what kernels of random numbers take as their key.
struct key_of_run {
  static constexpr char const* name = "key_of_run";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(ct::backward& b) { b.emit<key_of_run>({b.gradient()}, {0}); }
};

/// Its kernel.
struct writes_key {
  template <class real> static void run(ct::call const& c, ct::tensor<real const> x, ct::tensor<real> y) {
    auto const& p = c.parameters;
    for (std::int64_t i = 0; i < x.count; ++i)
      y[i] = static_cast<real>(static_cast<double>(p.seed) + 100 * static_cast<double>(p.step));
  }
};

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::emit<key_of_run>({ct::embedding("token", tokens, {.vocabulary = 32, .width = 32})});
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 8}>;

std::vector<std::int32_t> const inputs(8, 3);

} // namespace

template <> struct constrain::kernel<key_of_run, constrain::cpu> : writes_key {};

TEST_CASE("kernels of evaluation read the seed and the step of the run") {
  ct::trainer<task, ct::optimizer::sgd> t({}, {.seed = 7});
  CHECK(t.predict(inputs).logits[0] == 7);
  step(t, 1), step(t, 2);
  CHECK(t.predict(inputs).logits[0] == 207);
  ct::inference<task> model({.seed = 9});
  CHECK(model.predict(inputs).logits[0] == 9);
}
