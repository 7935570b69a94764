// Guarantees of a run: bit-identical results with checkpointing, and error sentences.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"
#include "sentence.hpp"

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
  CHECK(sentence([&] { sound.step(sound.batch(v.inputs, v.labels)); }).find("writes a non-finite value") !=
        std::string::npos);
}
