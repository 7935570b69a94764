#include "check_gradients.hpp"
#include "op/call_kernel.hpp"
#include "op/tensor_group.hpp"

#include <constrain/op/tensor_gather/cpu.hpp>

#include <mutex>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using rule = ct::op::tensor_gather;
using gradient_rule = ct::op::tensor_gather_gradient;
constexpr auto outputs = rule::infer(types({f32(shape(2, 5, 4))}), {.features = 11, .ranks = 3}).outputs;
static_assert(outputs.size() == 2 && outputs[0] == f32(shape(2, 5, 11)) && outputs[1] == f32(shape(10 * 12)));
static_assert(gradient_rule::infer(types({f32(shape(2, 5, 11))}), {.ranks = 3}).outputs[0] == f32(shape(2, 5, 4)));
// A buffer of a few rows at a time, but at least of one.
static_assert(rule::infer(types({f32(shape(9, 1 << 20))}), {.features = 2 << 20, .ranks = 2}).outputs[1].shape ==
              shape(2 << 20));

// One rank with all features; several are tested below.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::linear("in", ct::embedding("token", tokens, {.vocabulary = 7, .width = 4}), 6);
    return ct::linear("head", ct::tanh(ct::emit<rule>({x}, {.features = 6, .ranks = 1})), 5);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;

} // namespace

TEST_CASE("tensor_gather: gradients") { check_gradients<task>(); }

TEST_CASE_TEMPLATE("tensor_gather: all features on every rank, and back", real, float, double) {
  constexpr int ranks = 3, rows = 7, columns = 4, features = 11;
  auto const x = array<real>::random(shape(rows, features), 1);
  auto const options = ct::pack(rule::options{.features = features, .ranks = ranks});
  auto const gradient_options = ct::pack(gradient_rule::options{.ranks = ranks});
  std::mutex together;
  for (std::int64_t at_once : {1, 3, rows}) // rows for which the buffer has room
    tensor_group::run(ranks, [&](ct::step_parameters const& parameters) {
      array<real> const mine(shape(rows, columns), columns_of(x.values(), rows, parameters.tensor->rank(), columns));
      array<real> y(shape(rows, features)), buffer(shape(at_once * ranks * columns)), dx(shape(rows, columns));
      call_kernel<rule>(ct::call{options, parameters}, mine.in(), y.out(), buffer.out());
      call_kernel<gradient_rule>(ct::call{gradient_options, parameters}, x.in(), dx.out());
      std::lock_guard const lock(together);
      CHECK(y.values() == x.values());
      CHECK(dx.values() == mine.values());
    });
}
