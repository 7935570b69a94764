#include "policy/optimizer/elementwise_wrapper.hpp"
#include "policy/small_gpt.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace ct = constrain;
using namespace constrain::test;

namespace {

using adamw = ct::optimizer::adamw;
using ct::optimizer::by_role;
template <class... policies> using trainer = ct::trainer<small_gpt, policies...>;

static_assert(ct::is_optimizer<by_role<adamw>> && ct::has_update_rule<by_role<adamw>>);
static_assert(trainer<by_role<adamw>>::memory.optimizer_state == trainer<adamw>::memory.optimizer_state);
static_assert(trainer<by_role<ct::optimizer::sgd>>::memory.optimizer_state == ct::bytes(0));
// Kernels of one role find their hyperparameters where the trainer writes them for all.
static_assert(sizeof(ct::op::step_hyperparameters<by_role<adamw>, float>) ==
              sizeof(ct::op::step_hyperparameters<by_role<adamw>::of<ct::role::bias>, float>));

/// Checks that the default factors give the same weights as the optimizer, bit for bit, over 4 steps.
template <class optimizer, class... policies> void check_default(typename optimizer::hyper const& h) {
  trainer<optimizer, policies...> plain(h, {.schedule = ct::schedule::linear{.warmup = 2, .steps = 5}});
  trainer<by_role<optimizer>, policies...> grouped({.base = h},
                                                   {.schedule = ct::schedule::linear{.warmup = 2, .steps = 5}});
  for (int i = 0; i < 4; ++i) step(plain, i), step(grouped, i);
  CHECK(weights(grouped) == weights(plain));
}

by_role<adamw>::hyper const different{.base = {.learning_rate = 0.01f, .weight_decay = 0.5f},
                                      .weight = {.weight_decay = 0.5f},
                                      .bias = {.learning_rate = 2},
                                      .norm = {.learning_rate = 0.5f, .weight_decay = 0.25f},
                                      .embedding = {.learning_rate = 4, .weight_decay = 0},
                                      .head = {.learning_rate = 0}};

} // namespace

TEST_CASE("by_role: with the default factors it has the bits of the optimizer") {
  check_default<adamw>({.learning_rate = 0.01f, .weight_decay = 0.5f});
  check_default<adamw, ct::precision::bf16, ct::accumulate<2>>({.learning_rate = 0.01f, .weight_decay = 0.5f});
  check_default<ct::optimizer::adam, ct::precision::fp64>({.learning_rate = 0.01f, .weight_decay = 0.5f});
  check_default<ct::optimizer::nesterov, ct::checkpoint::every<2>>({.learning_rate = 0.01f, .weight_decay = 0.5f});
  check_default<ct::optimizer::lion, ct::precision::fp64>({.learning_rate = 0.01f, .weight_decay = 0.5f});
}

TEST_CASE("by_role: SGD in fp64, each role with its own learning rate and weight decay") {
  using sgd = ct::optimizer::sgd;
  trainer<by_role<sgd>, ct::precision::fp64> t{{.base = {.learning_rate = 0.125f, .weight_decay = 0.5f},
                                                .weight = {.weight_decay = 0.5f},
                                                .bias = {.learning_rate = 2},
                                                .norm = {.learning_rate = 0.5f, .weight_decay = 0.25f},
                                                .embedding = {.learning_rate = 4, .weight_decay = 0}}};
  struct factors {
    double rate, decay;
  };
  auto const of = [](ct::role r) -> factors {
    switch (r) {
    case ct::role::bias: return {0.25, 0};
    case ct::role::norm: return {0.0625, 0.125};
    case ct::role::embedding: return {0.5, 0};
    case ct::role::head: return {0.125, 0.5};
    default: return {0.125, 0.25};
    }
  };
  for (int i = 0; i < 3; ++i) {
    auto const before = weights(t);
    step(t, i);
    double apart = 0;
    for (std::size_t p = 0; p < before.size(); ++p) {
      auto const parameter = t.parameters().at(p);
      auto const now = values(parameter), g = values(t.gradient(parameter.name));
      auto const [rate, decay] = of(parameter.role);
      for (std::size_t k = 0; k < now.size(); ++k)
        apart = std::max(apart, std::abs(now[k] - (before[p][k] - rate * (g[k] + decay * before[p][k]))));
    }
    CHECK(apart < 1e-15);
  }
}

TEST_CASE("by_role: the factors reach an optimizer inside an element-wise one") {
  trainer<by_role<adamw>> plain(different);
  trainer<by_role<scaled<adamw>>> wrapped({.base = {.base = different.base},
                                           .weight = different.weight,
                                           .bias = different.bias,
                                           .norm = different.norm,
                                           .embedding = different.embedding,
                                           .head = different.head});
  for (int i = 0; i < 3; ++i) step(plain, i), step(wrapped, i);
  CHECK(weights(wrapped) == weights(plain));
  by_role<scaled<adamw>>::hyper too_large{.head = {.learning_rate = 1e38f}};
  too_large.base.base.learning_rate = 1e3f;
  CHECK(sentence([&] {
          trainer<by_role<scaled<adamw>>> t(too_large);
        }).starts_with("by_role: .head.learning_rate times the same field of .base.base is "));
}

namespace {

/// An optimizer with a field `base` that is not an optimizer's.
struct with_an_array {
  struct hyper {
    float learning_rate = 0.1f;
    float base[2] = {1, 2};
  };
  template <class real> struct state {};
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>&, hyper const& h, ct::optimizer_step) {
    return weight - static_cast<real>(h.learning_rate) * gradient;
  }
};

/// An optimizer with a rule that inherits the state of its base and prepares hyperparameters itself.
struct with_a_rule : adamw {
  using base = adamw;
  struct hyper {
    adamw::hyper base{};
  };
  static hyper prepare(hyper const& h, ct::optimizer_step) { return h; }
  static constexpr void update(ct::update_rule& u) { ct::op::update_by<adamw>(u); }
};

} // namespace

TEST_CASE("by_role: a field `base` may be of any type") {
  CHECK_NOTHROW(by_role<with_an_array>::check({.base = {.learning_rate = 2}}));
}

TEST_CASE("an optimizer with a rule decides itself which weights decay") {
  ct::op::step_hyperparameters<with_a_rule, float> const h({.base = {.weight_decay = 0.5f}}, {1});
  CHECK(h.choose(false).base.weight_decay == 0.5f);
}

TEST_CASE("by_role: biases and norms do not decay in an optimizer inside an element-wise one") {
  trainer<adamw> plain({.learning_rate = 0.01f, .weight_decay = 0.5f});
  trainer<scaled<adamw>> wrapped({.base = {.learning_rate = 0.01f, .weight_decay = 0.5f}});
  trainer<by_role<scaled<adamw>>> grouped({.base = {.base = {.learning_rate = 0.01f, .weight_decay = 0.5f}}});
  for (int i = 0; i < 3; ++i) step(plain, i), step(wrapped, i), step(grouped, i);
  CHECK(weights(wrapped) == weights(plain));
  CHECK(weights(grouped) == weights(plain));
}

TEST_CASE("by_role: a resumed run is the uninterrupted run; averages of it follow it") {
  temporary_directory const directory;
  trainer<by_role<adamw>> whole(different), first(different), second(different);
  trainer<ct::optimizer::averaged<by_role<adamw>>> averaged{{.base = different}};
  for (int i = 0; i < 3; ++i) step(whole, i), step(first, i), step(averaged, i);
  first.save(directory / "run");
  second.load(directory / "run");
  for (int i = 3; i < 6; ++i) step(whole, i), step(second, i), step(averaged, i);
  CHECK(weights(second) == weights(whole));
  CHECK(weights(averaged) == weights(whole));
  trainer<adamw> another;
  CHECK(sentence([&] { another.load(directory / "run"); }).find("by_role<adamw>") != std::string::npos);
}

TEST_CASE("by_role: a hyperparameter outside its range is refused") {
  auto const refused = [](by_role<adamw>::hyper const& h) { return sentence([&] { trainer<by_role<adamw>> t(h); }); };
  CHECK(refused({.base = {.beta1 = 1}}).starts_with("adamw: .beta1 is "));
  CHECK(refused({.norm = {.learning_rate = -1}}).starts_with("by_role: .norm.learning_rate is "));
  CHECK(refused({.head = {.weight_decay = -1}}).starts_with("by_role: .head.weight_decay is "));
}
