#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

#include <constrain/op/tensor_sum/cpu.hpp>

#include <vector>

// With one rank; several are tested in comm/tensor_parallel.cpp.

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using rule = ct::op::tensor_sum;
static_assert(rule::infer(types({f32(shape(2, 5, 12))})).outputs[0] == f32(shape(2, 5, 12)));
static_assert(rule::infer(types({f32(shape(2, 5, 12)), f32(shape(12))})).outputs[1].shape ==
              shape(ct::op::exchange_elements));
static_assert(ct::op::tensor_copy::infer(types({f32(shape(3, 4))})).outputs[0] == f32(shape(3, 4)));
static_assert(ct::info_of<rule>.has_gradient && ct::info_of<ct::op::tensor_copy>.has_gradient);

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::linear("in", ct::embedding("token", tokens, {.vocabulary = 7, .width = 4}), 6);
    auto const bias = ct::parameter(x, "bias", shape(6), ct::role::bias, {.stddev = 0.5});
    auto const copy = ct::emit<ct::op::tensor_copy>({x});
    return ct::linear("head", ct::emit<rule>({ct::tanh(copy), bias}) * ct::emit<rule>({copy}), 5);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 3}>;

} // namespace

TEST_CASE("tensor_sum and tensor_copy: gradients") { check_gradients<task>(); }

TEST_CASE("tensor_sum: one rank adds the bias, in place too") {
  ct::self one;
  ct::step_parameters parameters;
  parameters.tensor = &one;
  ct::attributes const none{};
  ct::call const c{none, parameters};
  std::vector<float> x{1, 2, 3, 4, 5, 6}, y(6), buffer(16);
  std::vector<float> const b{10, 20, 30};
  shape const s(2, 3), row(3), scratch(16);
  auto const run = [&](std::vector<float>& to) {
    ct::kernel<rule, ct::cpu>::run(c, ct::tensor<float const>{x.data(), &s, 6},
                                   ct::tensor<float const>{b.data(), &row, 3}, ct::tensor<float>{to.data(), &s, 6},
                                   ct::tensor<float>{buffer.data(), &scratch, 16});
  };
  run(y);
  CHECK(y == std::vector<float>{11, 22, 33, 14, 25, 36});
  run(x);
  CHECK(x == y);
}
