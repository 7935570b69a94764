// The launches and allocations of a step, which the stand-in counts.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/root_mean_squares.hpp"

#include <cmath>

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("the optimizer is one launch, and nothing is allocated after the first step") {
  using trainer = ct::trainer<small, device_policy, ct::launch::graph>;
  trainer t({}, numbers);
  losses_of(t, 1);
  auto const allocations = on_host::allocations;
  on_host::launches.clear();
  losses_of(t, 5);
  CHECK(on_host::allocations == allocations);
  int updates = 0;
  for (auto const& n : trainer::entries::step_program::final.nodes)
    updates += n.op == &ct::info_of<ct::op::update<ct::optimizer::adamw>> ? 1 : 0;
  CHECK(updates > 10);
  CHECK(on_host::launches[on_host::address(&ct::update_kernel<ct::optimizer::adamw, float, float, 0, 1>)] == 5);
  CHECK(on_host::launches[on_host::address(&ct::square_chunks_kernel<float>)] == 5);
  CHECK(on_host::launches[on_host::address(&ct::gradient_norm_squared_kernel<float>)] == 5);
}

namespace {

template <class task, class... policies> void launches_are_planned(double dropout) {
  using trainer = ct::trainer<task, policies..., device_policy>;
  CAPTURE(trainer::policy_set::name());
  CAPTURE(dropout);
  trainer t({}, {.dropout = dropout});
  losses_of(t, 1);
  auto const before = on_host::all_launches();
  losses_of(t, 3);
  CHECK(on_host::all_launches() - before == 3 * trainer::kernel_launches);
}

} // namespace

TEST_CASE("the plan has as many launches as the device") {
  launches_are_planned<small>(0);
  launches_are_planned<small, ct::launch::graph, ct::accumulate<2>, ct::checkpoint::every<2>>(0.1);
  launches_are_planned<small, ct::precision::bf16, ct::optimizer::momentum, ct::checkpoint::every<1>>(0);
  launches_are_planned<classifier, ct::launch::graph, ct::optimizer::sgd>(0);
  launches_are_planned<classifier, ct::precision::fp16>(0.1);
  launches_are_planned<focal<37, 5, 4, 19>, ct::launch::graph, ct::optimizer::adafactor>(0);
  launches_are_planned<normed<24, 5, 7>, ct::optimizer::adafactor_with_momentum>(0);
  launches_are_planned<mlp<37, 53, 19>, ct::launch::graph, ct::optimizer::muon<ct::optimizer::sgd>>(0);
  launches_are_planned<small, ct::optimizer::quantized<ct::optimizer::adamw, ct::optimizer::everything>>(0);
}

namespace {

/// A model of more parameters than one launch updates.
struct many_parameters {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 4});
    for (int i = 0; i < 39; ++i) {
      char const name[] = {'l', static_cast<char>('a' + i / 26), static_cast<char>('a' + i % 26)};
      x = ct::linear({name, 3}, x, 4);
    }
    return ct::linear("head", x, 7);
  }
};
using many = ct::task<many_parameters{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 3}>;

} // namespace

TEST_CASE("an optimizer of more parameters than fit into a launch has several") {
  using trainer = ct::trainer<many, device_policy>;
  constexpr auto update = &ct::update_kernel<ct::optimizer::adamw, float, float, 0, 1>;
  static_assert(trainer::entries::parameters.size == 81);
  launches_are_planned<many>(0);
  on_host::launches.clear();
  trainer t;
  losses_of(t, 1);
  CHECK(on_host::launches[on_host::address(update)] == 2); // of 74 and 7
  CHECK(on_host::launches[on_host::address(&ct::square_chunks_kernel<float>)] == 1);
  ct::trainer<many> cpu;
  CHECK(std::abs(losses_of(t, 4, 1).back() - losses_of(cpu, 5).back()) < 1e-5);
}
