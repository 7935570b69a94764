#include "policy/small_gpt.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

// Weights in 16 bits without masters; tests/op/narrow_weight.cpp has how they are rounded.

namespace ct = constrain;
using namespace constrain::test;

namespace {

using ct::optimizer::adamw;
using ct::optimizer::in_backward;
using pure = ct::precision::pure_bf16;
using in_bf16 = ct::optimizer::states_in<ct::dtype::bf16, adamw>;
template <class... policies> using trainer = ct::trainer<small_gpt, policies...>;

/// Bytes of the weights: 2 per element of a matrix, 4 of a vector.
template <class trainer> constexpr std::int64_t expected_bytes() {
  std::int64_t bytes = 0;
  for (auto const& p : trainer::entries::parameters.parameters) bytes += p.elements() * (p.shape.rank >= 2 ? 2 : 4);
  return bytes;
}
static_assert(trainer<pure>::memory.weights == ct::bytes(expected_bytes<trainer<pure>>()));
static_assert(trainer<pure>::memory.master_weights == ct::bytes(0));
static_assert(trainer<pure>::memory.gradients == trainer<>::memory.gradients);
static_assert(trainer<pure>::memory.optimizer_state == trainer<>::memory.optimizer_state);

/// Weights and states, as the trainer saves them.
template <class trainer> std::string bytes_of(trainer const& t) {
  temporary_directory const directory;
  t.save(directory / "run");
  return read_file(directory / "run/model.safetensors") + read_file(directory / "run/optimizer.safetensors");
}

template <class... policies> std::string bytes_after_four_steps() {
  trainer<policies...> t;
  for (int i = 0; i < 4; ++i) step(t, i);
  return bytes_of(t);
}

/// The number nearest to x in bf16.
float in_16_bits(float x) { return static_cast<float>(ct::bfloat16(x)); }

} // namespace

TEST_CASE("pure_bf16: trains nearly as fp32, with every kind of optimizer") {
  auto const compare = []<class optimizer>(optimizer, float rate = 3e-3f) {
    trainer<optimizer> exact{{.learning_rate = rate}};
    trainer<optimizer, pure> t{{.learning_rate = rate}};
    double first = 0, losses[2]{};
    for (int i = 0; i < 60; ++i) {
      losses[0] = step(exact, i % 7).loss, losses[1] = step(t, i % 7).loss;
      if (i == 0) first = losses[0];
    }
    MESSAGE(ct::policy_name<optimizer>() << ": " << losses[1] << ", in fp32 " << losses[0] << ", at first " << first);
    CHECK(std::abs(losses[1] - losses[0]) <= 0.02 * (first - losses[0]));
  };
  compare(adamw{});
  compare(in_bf16{});
  compare(ct::optimizer::adamw_8bit{});
  compare(ct::optimizer::lion{});
  compare(ct::optimizer::adafactor{}, 0.05f);
}

TEST_CASE("pure_bf16: recomputation, updates in the backward pass and a resume do not change a bit") {
  auto const expected = bytes_after_four_steps<pure>();
  CHECK(bytes_after_four_steps<pure, ct::checkpoint::every<1>>() == expected);
  CHECK(bytes_after_four_steps<pure, ct::checkpoint::every<2>>() == expected);
  trainer<pure> plain, other{{}, {.seed = 1}};
  trainer<pure, in_backward<adamw>, ct::checkpoint::every<2>> at_once;
  temporary_directory const directory;
  for (int i = 0; i < 4; ++i) {
    plain.save(directory / "run" + std::to_string(i));
    step(plain, i), step(at_once, i), step(other, i);
  }
  CHECK(bytes_of(plain) == expected);
  CHECK(weights(at_once) == weights(plain));
  CHECK(weights(other) != weights(plain));
  for (int i = 0; i < 4; ++i) {
    trainer<pure> resumed;
    resumed.load(directory / "run" + std::to_string(i));
    for (int k = i; k < 4; ++k) step(resumed, k);
    CHECK(bytes_of(resumed) == expected);
  }
}

TEST_CASE("pure_bf16: updates that rounding to nearest would lose add up") {
  constexpr int steps = 40;
  ct::optimizer::sgd::hyper const h{.learning_rate = 1e-3f};
  trainer<pure, ct::optimizer::sgd> t(h);
  trainer<ct::optimizer::sgd> exact(h);
  auto const start = weights(t);
  for (int i = 0; i < steps; ++i) step(t, i), step(exact, i);
  double moved = 0, expected = 0, lost = 0, all = 0;
  auto const got = weights(t), wanted = weights(exact);
  for (std::size_t p = 0; p < got.size(); ++p) {
    if (t.parameters()[p].shape().rank < 2) continue;
    for (std::size_t k = 0; k < got[p].size(); ++k) {
      double const direction = wanted[p][k] - in_16_bits(static_cast<float>(start[p][k]));
      lost += std::abs(direction) / steps < std::abs(start[p][k]) / 512 ? 1 : 0, all += 1;
      moved += (got[p][k] - start[p][k]) * direction, expected += direction * direction;
    }
  }
  MESSAGE("steps of " << 100 * lost / all << " % of the weights are less than 1/512 of the weight; together they moved "
                      << moved / expected << " of the way of fp32");
  CHECK(lost > 0.5 * all);
  CHECK(moved / expected == doctest::Approx(1).epsilon(0.1));
}

TEST_CASE("pure_bf16 with states_in: the equations of AdamW on a weight and its compensation") {
  adamw::hyper const h{.learning_rate = 1e-3f, .weight_decay = 0.1f};
  trainer<pure, in_bf16> t(h);
  struct compensated {
    std::vector<float> w, c, m, v;
  };
  std::vector<compensated> expected;
  auto const floats = [](auto const& view) {
    std::vector<float> all(static_cast<std::size_t>(view.size()));
    view.copy_to(std::span(all));
    return all;
  };
  for (auto const& p : t.parameters()) {
    auto const w = floats(p);
    std::vector<float> const zero(w.size());
    expected.push_back({w, zero, zero, zero});
  }
  for (int i = 0; i < 10; ++i) {
    step(t, i);
    for (std::size_t p = 0; p < expected.size(); ++p) {
      auto const parameter = t.parameters()[p];
      bool const is_matrix = parameter.shape().rank >= 2;
      auto of_step = h;
      if (!ct::decays(parameter.role)) of_step.weight_decay = 0;
      auto const prepared = adamw::prepare<float>(of_step, {i + 1});
      auto const g = floats(t.gradient(parameter.name)), w = floats(parameter);
      std::vector<float> c(w.size());
      if (is_matrix) c = floats(t.state(parameter.name, "compensation"));
      double apart = 0;
      auto& e = expected[p];
      for (std::size_t k = 0; k < w.size(); ++k) {
        adamw::state<float> s{e.m[k], e.v[k]};
        float const x = adamw::update<float>(e.w[k] + e.c[k], g[k], s, prepared, {i + 1});
        e.m[k] = in_16_bits(s.exp_avg), e.v[k] = in_16_bits(s.exp_avg_sq);
        e.w[k] = is_matrix ? in_16_bits(x) : x, e.c[k] = is_matrix ? in_16_bits(x - in_16_bits(x)) : 0;
        apart = std::max(apart, static_cast<double>(std::abs(w[k] + c[k] - (e.w[k] + e.c[k]))));
        CHECK(std::abs(c[k]) <= std::abs(w[k]) / 256);
      }
      CHECK(apart <= 1e-6);
      e.w = w, e.c = c;
      if (is_matrix) CHECK(*std::max_element(c.begin(), c.end()) > 0);
    }
  }
}

namespace {

/// The largest absolute element of the compensations of all matrices.
double largest_compensation(trainer<pure, in_bf16> const& t) {
  double largest = 0;
  for (auto const& p : t.parameters())
    if (p.shape().rank >= 2)
      for (double const c : values(t.state(p.name, "compensation"))) largest = std::max(largest, std::abs(c));
  return largest;
}

} // namespace

TEST_CASE("pure_bf16 with states_in: a weight that the host sets has no compensation of the weight before it") {
  temporary_directory const directory;
  trainer<pure, in_bf16> const other{{}, {.seed = 7}};
  other.save(directory / "other");
  trainer<pure, in_bf16> t{{.learning_rate = 0.1f}};
  for (int i = 0; i < 3; ++i) step(t, i);
  CHECK(largest_compensation(t) > 0);
  t.load_pretrained(directory / "other");
  CHECK(largest_compensation(t) == 0);
  CHECK(weights(t) == weights(other));

  step(t, 3);
  auto const set = t.parameters()[0], left = t.parameters()[1];
  auto const state_of_left = values(t.state(left.name, "compensation")), moments = values(t.state(set.name, "exp_avg"));
  std::vector<double> const zero(static_cast<std::size_t>(set.size()));
  CHECK(values(t.state(set.name, "compensation")) != zero);
  set.copy_from(std::span<double const>(zero));
  CHECK(values(t.state(set.name, "compensation")) == zero);
  CHECK(values(t.state(left.name, "compensation")) == state_of_left);
  CHECK(values(t.state(set.name, "exp_avg")) == moments);
}

TEST_CASE("pure_bf16: a gradient that is not finite changes no weight and no state") {
  trainer<pure> t;
  for (int i = 0; i < 2; ++i) CHECK(!step(t, i).skipped);
  auto const before = bytes_of(t);
  auto const bias = t.parameters().back();
  auto const kept = values(bias);
  auto wrong = kept;
  wrong[0] = std::numeric_limits<double>::infinity();
  bias.copy_from(std::span<double const>(wrong));
  CHECK(step(t, 2).skipped);
  bias.copy_from(std::span<double const>(kept));
  CHECK(bytes_of(t) == before);
}

TEST_CASE("pure_bf16: planned bytes are used, and no other precision resumes the run") {
  trainer<pure, ct::accumulate<2>> t({}, {.measure_memory = true});
  step(t, 0);
  CHECK(t.used_bytes() == t.memory.peak);
  temporary_directory const directory;
  t.save(directory / "run");
  trainer<ct::precision::bf16> mixed;
  auto const text = sentence([&] { mixed.load(directory / "run"); });
  CAPTURE(text);
  CHECK(text.find("pure_bf16") != std::string::npos);
}
