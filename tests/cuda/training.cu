// Whole trainings on the device beside the CPU's.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

#if defined(CONSTRAIN_ON_HOST)
using small = gpt<2, 2, 16, 67, 11, 2>;
#else
using small = gpt<5, 4, 128, 257, 130, 3>;
#endif
ct::run_options const numbers{.seed = 4, .clip_norm = 1, .schedule = ct::schedule::cosine{.warmup = 4, .steps = 20}, .dropout = 0.1};

template <class trainer> std::vector<double> losses_of(trainer& t, int steps, unsigned first = 0) {
  std::vector<double> losses;
  for (unsigned i = first; i < first + static_cast<unsigned>(steps); ++i) {
    auto const w = tokens_for<trainer>(i % 3);
    losses.push_back(t.step(t.window(w.inputs, w.labels)).loss);
  }
  return losses;
}

template <class trainer> std::vector<double> weights_of(trainer const& t) {
  std::vector<double> all;
  for (auto const& p : t.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(values));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

bool same_bits(std::vector<double> const& a, std::vector<double> const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

template <class... policies> void twenty_losses(double bound) {
  using on_cpu = ct::trainer<small, policies...>;
  using on_device = ct::trainer<small, policies..., device_policy>;
  typename on_cpu::hyper const hyper{.learning_rate = 3e-3f};
  on_cpu cpu(hyper, numbers);
  on_device device({.learning_rate = 3e-3f}, numbers);
  CAPTURE(on_device::policy_set::name());
  CHECK(same_bits(weights_of(cpu), weights_of(device)));
  auto const expected = losses_of(cpu, 20), got = losses_of(device, 20);
  CHECK(expected.back() < expected.front());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got[i] - expected[i]) <= bound * expected[i]);
  }
}

template <class... policies> void graph_is_eager() {
  ct::trainer<small, policies..., device_policy> eager({}, numbers);
  ct::trainer<small, policies..., device_policy, ct::launch::graph> graph({}, numbers);
  CAPTURE(decltype(graph)::policy_set::name());
  CHECK(same_bits(losses_of(eager, 6), losses_of(graph, 6)));
  auto const w = tokens_for<decltype(eager)>(1);
  auto const batch = std::span(w.inputs).first(static_cast<std::size_t>(small::sequences * small::tokens));
  auto const labels = std::span(w.labels).first(batch.size());
  for (int i = 0; i < 3; ++i) CHECK(eager.evaluate(batch, labels).loss == graph.evaluate(batch, labels).loss);
  CHECK(eager.generate(batch.first(3), 5) == graph.generate(batch.first(3), 5));
  CHECK(same_bits(losses_of(eager, 3), losses_of(graph, 3)));
  CHECK(same_bits(weights_of(eager), weights_of(graph)));
}

template <class task, class... policies> void plan_is_used() {
  using trainer = ct::trainer<task, policies..., device_policy>;
  auto const w = tokens_for<trainer>(1);
  trainer t{{}, {.dropout = 0.1, .measure_memory = true}};
  CAPTURE(trainer::policy_set::name());
  auto const batch = std::span(w.inputs).first(static_cast<std::size_t>(task::sequences * task::tokens));
  t.step(t.window(w.inputs, w.labels));
  t.predict(batch);
  t.evaluate(batch, std::span(w.labels).first(static_cast<std::size_t>(trainer::entries::labels)));
  if constexpr (trainer::entries::logits.rank == 3) t.generate(batch.first(3), 2);
  CHECK(t.used_bytes() == trainer::memory.peak);
}

template <class task, class... policies> void same_program() {
  using cpu = typename ct::trainer<task, policies...>::entries;
  using device = typename ct::trainer<task, policies..., device_policy>::entries;
  // What may differ from the CPU's program before `place`: nothing so far.
  CHECK(ct::print(cpu::step_program::final) == ct::print(device::step_program::final));
  CHECK(ct::print(cpu::evaluate_program::final) == ct::print(device::evaluate_program::final));
  CHECK(ct::print(cpu::predict_program::final) == ct::print(device::predict_program::final));
  CHECK(ct::print(cpu::generate_program::final) == ct::print(device::generate_program::final));
}

} // namespace

TEST_CASE("twenty losses as on the CPU") {
  twenty_losses<ct::optimizer::adamw>(1e-4);
  twenty_losses<ct::optimizer::adamw, ct::precision::fp64, ct::accumulate<2>>(1e-5);
  twenty_losses<ct::optimizer::adamw, ct::precision::bf16, ct::checkpoint::every<2>>(1e-2);
}

TEST_CASE("a graph is the eager run, bit for bit") {
  graph_is_eager<>();
  graph_is_eager<ct::precision::bf16, ct::accumulate<2>, ct::checkpoint::every<1>>();
}

TEST_CASE("planned bytes are the bytes that are touched") {
  plan_is_used<small>();
  plan_is_used<small, ct::accumulate<3>, ct::checkpoint::every<2>>();
  plan_is_used<small, ct::precision::bf16>();
  plan_is_used<classifier, ct::precision::fp64, ct::optimizer::sgd>();
}

TEST_CASE("the program is the CPU's up to its addresses") {
  same_program<small, ct::precision::bf16, ct::accumulate<2>, ct::checkpoint::every<2>>();
  same_program<classifier>();
}

TEST_CASE("every<k> changes no bit") {
  ct::trainer<small, device_policy> kept({}, numbers);
  ct::trainer<small, device_policy, ct::checkpoint::every<2>> again({}, numbers);
  CHECK(same_bits(losses_of(kept, 10), losses_of(again, 10)));
  CHECK(same_bits(weights_of(kept), weights_of(again)));
}

TEST_CASE("a checkpoint of the device goes on, on the device and on the CPU") {
  temporary_directory const directory;
  auto const path = directory / "checkpoint";
  using device = ct::trainer<small, device_policy, ct::launch::graph>;
  device whole({}, numbers);
  losses_of(whole, 4);
  whole.save(path);
  auto const expected = losses_of(whole, 4, 4);
  device resumed({}, numbers);
  resumed.load(path);
  CHECK(same_bits(losses_of(resumed, 4, 4), expected));
  CHECK(same_bits(weights_of(resumed), weights_of(whole)));
  ct::trainer<small> cpu({}, numbers);
  cpu.load(path);
  auto const there = losses_of(cpu, 4, 4);
  for (std::size_t i = 0; i < there.size(); ++i) CHECK(std::abs(there[i] - expected[i]) <= 1e-5 * expected[i]);
}

TEST_CASE("a gradient that is not finite changes nothing and is named") {
  ct::trainer<small, device_policy> t({}, numbers);
  auto const parameters = t.parameters();
  std::vector<float> values(static_cast<std::size_t>(parameters[3].size()));
  parameters[3].copy_to(std::span(values));
  values[1] = std::numeric_limits<float>::infinity();
  parameters[3].copy_from(std::span<float const>(values));
  auto const before = weights_of(t);
  auto const w = tokens_for<decltype(t)>(1);
  auto const r = t.step(t.window(w.inputs, w.labels));
  CHECK(r.skipped);
  CHECK(!r.not_finite.empty());
  CHECK(same_bits(weights_of(t), before));

  auto checked = numbers;
  checked.checked = true;
  ct::trainer<small, device_policy> sound({}, checked);
  auto const v = tokens_for<decltype(sound)>(1);
  CHECK(!sound.step(sound.window(v.inputs, v.labels)).skipped);
  sound.parameters()[3].copy_from(std::span<float const>(values));
  CHECK(sentence([&] { sound.step(sound.window(v.inputs, v.labels)); }).find("computes a number that is not finite") != std::string::npos);
}

TEST_CASE("a device that has not the memory says so") {
  using huge = ct::task<ct::gpt2{.layers = 96, .heads = 96, .width = 12288, .vocabulary = 50257, .context = 2048}, ct::causal_lm,
                        ct::micro_batch{.sequences = 64}>;
  using trainer = ct::trainer<huge, device_policy>;
  static_assert(trainer::memory.peak > ct::gibibytes(1024));
  CHECK(sentence([] { trainer t; }).find("could not be allocated on the device, which has") != std::string::npos);
}

#if defined(CONSTRAIN_ON_HOST)
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
  CHECK(on_host::launches[on_host::address(&ct::update_kernel<ct::optimizer::adamw, float, 0, 1>)] == 5);
  CHECK(on_host::launches[on_host::address(&ct::square_parts_kernel<float>)] == 5);
}
#endif
