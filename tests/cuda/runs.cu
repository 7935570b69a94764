// What a run may count on: the same bits with checkpointing, resume, sentences for what goes wrong.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

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
  auto const r = t.step(t.batch(w.inputs, w.labels));
  CHECK(r.skipped);
  CHECK(!r.not_finite.empty());
  CHECK(same_bits(weights_of(t), before));

  auto checked = numbers;
  checked.checked = true;
  ct::trainer<small, device_policy> sound({}, checked);
  auto const v = tokens_for<decltype(sound)>(1);
  CHECK(!sound.step(sound.batch(v.inputs, v.labels)).skipped);
  sound.parameters()[3].copy_from(std::span<float const>(values));
  CHECK(sentence([&] { sound.step(sound.batch(v.inputs, v.labels)); }).find("computes a number that is not finite") !=
        std::string::npos);
}

TEST_CASE("a device that has not the memory says so") {
  using huge = ct::task<ct::gpt2{.layers = 96, .heads = 96, .width = 12288, .vocabulary = 50257, .context = 2048},
                        ct::causal_lm, ct::micro_batch{.sequences = 64}>;
  using trainer = ct::trainer<huge, device_policy>;
  static_assert(trainer::memory.peak > ct::gibibytes(1024));
  CHECK(sentence([] { trainer t; }).find("could not be allocated on the device, which has") != std::string::npos);
}
