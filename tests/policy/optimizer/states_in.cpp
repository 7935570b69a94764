#include "policy/optimizer/elementwise_wrapper.hpp"
#include "policy/small_gpt.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace ct = constrain;
using namespace constrain::test;

namespace {

using ct::dtype;
using ct::optimizer::adamw;
using ct::optimizer::states_in;
using in_bf16 = states_in<dtype::bf16, adamw>;
template <class... policies> using trainer = ct::trainer<small_gpt, policies...>;

static_assert(ct::is_optimizer<in_bf16> && !ct::has_update_rule<in_bf16>);
static_assert(std::is_same_v<in_bf16::hyper, adamw::hyper>);
static_assert(trainer<scaled<in_bf16>>::memory.optimizer_state == trainer<in_bf16>::memory.optimizer_state);
static_assert(2 * trainer<in_bf16>::memory.optimizer_state == trainer<adamw>::memory.optimizer_state);
static_assert(trainer<states_in<dtype::f32, adamw>>::memory.optimizer_state == trainer<adamw>::memory.optimizer_state);
static_assert(trainer<states_in<dtype::f32, adamw>, ct::precision::fp64>::memory.optimizer_state ==
              trainer<adamw>::memory.optimizer_state);

/// The nearest number in bf16.
double in_16_bits(double x) { return static_cast<double>(static_cast<float>(ct::bfloat16(static_cast<float>(x)))); }

/// One parameter, by the equations of AdamW, with both moments rounded to bf16 after every step.
struct rounded_adamw {
  std::vector<double> theta, m, v;
  adamw::hyper h;

  void step(std::vector<double> const& g, double decay, int t) {
    for (std::size_t i = 0; i < g.size(); ++i) {
      double const new_m = h.beta1 * m[i] + (1 - static_cast<double>(h.beta1)) * g[i];
      double const new_v = h.beta2 * v[i] + (1 - static_cast<double>(h.beta2)) * g[i] * g[i];
      double const unbiased_m = new_m / (1 - std::pow(static_cast<double>(h.beta1), t));
      double const unbiased_v = new_v / (1 - std::pow(static_cast<double>(h.beta2), t));
      theta[i] =
          theta[i] * (1 - h.learning_rate * decay) - h.learning_rate * unbiased_m / (std::sqrt(unbiased_v) + h.epsilon);
      m[i] = in_16_bits(new_m), v[i] = in_16_bits(new_v);
    }
  }
};

/// Weights and states, as the trainer saves them.
template <class trainer> std::string bytes_of(trainer const& t) {
  temporary_directory const directory;
  t.save(directory / "run");
  return read_file(directory / "run/model.safetensors") + read_file(directory / "run/optimizer.safetensors");
}

} // namespace

TEST_CASE("states_in: the equations of adamw with rounded moments, 10 steps in fp64") {
  adamw::hyper const h{.learning_rate = 0.01f, .beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 1e-4f, .weight_decay = 0.5f};
  trainer<in_bf16, ct::precision::fp64> t(h);
  std::vector<rounded_adamw> expected;
  for (auto const& p : t.parameters()) {
    auto const start = values(p);
    expected.push_back({start, std::vector<double>(start.size()), std::vector<double>(start.size()), h});
  }
  for (int i = 0; i < 10; ++i) {
    step(t, i);
    double apart = 0;
    for (std::size_t p = 0; p < expected.size(); ++p) {
      auto const parameter = t.parameters().at(p);
      auto& e = expected[p];
      e.step(values(t.gradient(parameter.name)), ct::decays(parameter.role) ? h.weight_decay : 0.0, i + 1);
      auto const weight = values(parameter), m = values(t.state(parameter.name, "exp_avg"));
      auto const v = values(t.state(parameter.name, "exp_avg_sq"));
      for (std::size_t k = 0; k < weight.size(); ++k) {
        apart = std::max(apart, std::abs(weight[k] - e.theta[k]));
        CHECK(m[k] == e.m[k]);
        CHECK(v[k] == e.v[k]);
      }
    }
    CAPTURE(i);
    CHECK(apart <= 1e-10);
  }
}

TEST_CASE("states_in: with the states in the type of the weights, the bits of its optimizer") {
  trainer<states_in<dtype::f32, adamw>> wrapped;
  trainer<adamw> plain;
  for (int i = 0; i < 3; ++i) step(wrapped, i), step(plain, i);
  CHECK(bytes_of(wrapped) == bytes_of(plain));
}

TEST_CASE("states_in: bit-identical with checkpointing, in other optimizers, and after a resume at every step") {
  trainer<in_bf16> plain;
  trainer<in_bf16, ct::checkpoint::every<2>> segments;
  trainer<ct::optimizer::averaged<in_bf16>> averaged;
  trainer<ct::optimizer::by_role<in_bf16>> by_role;
  trainer<scaled<in_bf16>> wrapped;
  temporary_directory const directory;
  for (int i = 0; i < 4; ++i) {
    plain.save(directory / "run" + std::to_string(i));
    step(plain, i), step(segments, i), step(averaged, i), step(by_role, i), step(wrapped, i);
  }
  auto const expected = bytes_of(plain);
  CHECK(bytes_of(segments) == expected);
  CHECK(bytes_of(by_role) == expected);
  CHECK(bytes_of(wrapped) == expected);
  CHECK(weights(averaged) == weights(plain));
  for (int i = 0; i < 4; ++i) {
    trainer<in_bf16> resumed;
    resumed.load(directory / "run" + std::to_string(i));
    for (int k = i; k < 4; ++k) step(resumed, k);
    CHECK(bytes_of(resumed) == expected);
  }
}

TEST_CASE("states_in: a run resumes only with states of the same type") {
  trainer<in_bf16> t;
  temporary_directory const directory;
  t.save(directory / "run");
  trainer<adamw> exact;
  trainer<states_in<dtype::f32, adamw>> in_fp32;
  for (auto const& text :
       {sentence([&] { exact.load(directory / "run"); }), sentence([&] { in_fp32.load(directory / "run"); })}) {
    CAPTURE(text);
    CHECK(text.find("states_in_bf16<adamw>") != std::string::npos);
  }
}

TEST_CASE("states_in: a second moment in bf16 does not shrink with beta2 = 0.999, and does with 0.99") {
  for (float const beta2 : {0.999f, 0.99f}) {
    adamw::state<float> s{0, 1};
    ct::bfloat16 m = 0.f, v = 1.f;
    float weight = 0;
    auto const h = adamw::prepare<float>({.beta2 = beta2}, {1});
    ct::op::update_element<in_bf16>(h, ct::optimizer_step{1}, 0.f, weight, m, v);
    adamw::update<float>(0, 0, s, h, {1});
    CHECK(s.exp_avg_sq == beta2);
    CHECK((static_cast<float>(v) == 1) == (beta2 == 0.999f));
  }
}
