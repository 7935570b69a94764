#include "fixtures.hpp"
#include "op/own_rule.hpp"
#include "temporary_directory.hpp"

#include <cmath>

namespace ct = constrain;
using namespace constrain::test;

namespace {

using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 16, .vocabulary = 32, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
template <class optimizer, class... policies>
using averaged = ct::trainer<task, ct::optimizer::averaged<optimizer>, policies...>;
using fp64 = ct::precision::fp64;

struct data {
  std::vector<std::int32_t> inputs = std::vector<std::int32_t>(16), labels = inputs;

  explicit data(int number) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = static_cast<std::int32_t>((i * 7 + static_cast<std::size_t>(number)) % 32);
      labels[i] = static_cast<std::int32_t>((i * 7 + 7 + static_cast<std::size_t>(number)) % 32);
    }
  }
};
template <class trainer> ct::step_result step(trainer& t, int number) {
  data const d(number);
  return t.step(t.batch(d.inputs, d.labels));
}

std::vector<double> values(ct::tensor_view const& view) {
  std::vector<double> all(static_cast<std::size_t>(view.size()));
  view.copy_to(std::span(all));
  return all;
}
template <class trainer> std::vector<std::vector<double>> weights(trainer const& t) {
  std::vector<std::vector<double>> all;
  for (auto const& p : t.parameters()) all.push_back(values(p));
  return all;
}
template <class trainer> std::vector<std::vector<double>> averages(trainer const& t) {
  std::vector<std::vector<double>> all;
  for (auto const& p : t.parameters()) all.push_back(values(t.state(p.name, "average")));
  return all;
}

static_assert(ct::is_optimizer<ct::optimizer::averaged<ct::optimizer::adamw>>);
// One value per weight more than the optimizer.
static_assert(averaged<ct::optimizer::adamw>::memory.optimizer_state.count() ==
              12 * averaged<ct::optimizer::adamw>::parameter_count);

} // namespace

TEST_CASE("averages follow their definition, and leave the optimizer's bits alone") {
  averaged<ct::optimizer::adamw, fp64> t{{.base = {.learning_rate = 0.01f, .weight_decay = 0.1f}, .decay = 0.75f}};
  ct::trainer<task, fp64> plain{{.learning_rate = 0.01f, .weight_decay = 0.1f}};
  CHECK(averages(t) == weights(t));
  auto expected = weights(t);
  for (int i = 0; i < 10; ++i) {
    step(t, i), step(plain, i);
    auto const now = weights(t);
    CHECK(now == weights(plain));
    for (std::size_t p = 0; p < now.size(); ++p)
      for (std::size_t k = 0; k < now[p].size(); ++k)
        expected[p][k] = i == 0 ? now[p][k] : 0.75 * expected[p][k] + 0.25 * now[p][k];
    auto const found = averages(t);
    double distance = 0;
    for (std::size_t p = 0; p < now.size(); ++p)
      for (std::size_t k = 0; k < now[p].size(); ++k)
        distance = std::max(distance, std::abs(found[p][k] - expected[p][k]));
    CHECK(distance <= 1e-15);
  }
}

TEST_CASE("evaluation, prediction and generation read the averages, training the weights") {
  averaged<ct::optimizer::adamw> t{{.base = {.learning_rate = 0.01f}, .decay = 0.9f}};
  ct::trainer<task> with_averages;
  for (int i = 0; i < 5; ++i) step(t, i);
  auto const all = averages(t);
  auto views = with_averages.parameters();
  for (std::size_t p = 0; p < views.size(); ++p) views[p].copy_from(std::span<double const>(all[p]));
  data const d(9);
  CHECK(all != weights(t));
  CHECK(t.evaluate(d.inputs, d.labels).loss == with_averages.evaluate(d.inputs, d.labels).loss);
  CHECK(t.predict(d.inputs).logits == with_averages.predict(d.inputs).logits);
  std::vector<std::int32_t> const prompt{1, 2, 3};
  CHECK(t.generate(prompt, 5, {.temperature = 0}) == with_averages.generate(prompt, 5, {.temperature = 0}));
  CHECK(averages(t) == all);
}

TEST_CASE("averages resume bit for bit, and start again from pretrained weights") {
  temporary_directory const directory;
  using trainer = averaged<normalized_momentum, ct::checkpoint::every<2>, ct::accumulate<1>>;
  trainer whole;
  for (int i = 0; i < 4; ++i) {
    if (i == 2) whole.save(directory / "run");
    step(whole, i);
  }
  trainer resumed;
  resumed.load(directory / "run");
  step(resumed, 2), step(resumed, 3);
  CHECK(weights(resumed) == weights(whole));
  CHECK(averages(resumed) == averages(whole));

  ct::trainer<task> other{{}, {.seed = 7}};
  other.save(directory / "other");
  resumed.load_pretrained(directory / "other");
  CHECK(averages(resumed) == weights(other));
  CHECK(trainer::policy_set::optimizer_name() == "averaged<constrain::test::normalized_momentum>");
}

TEST_CASE("the average of a parameter that the host sets starts again from the new value") {
  averaged<ct::optimizer::adamw> t{{.base = {.learning_rate = 0.1f}, .decay = 0.9f}};
  for (int i = 0; i < 3; ++i) step(t, i);
  auto expected = averages(t);
  auto const moments = values(t.state("token.weight", "exp_avg"));
  CHECK(expected[0] != weights(t)[0]);
  expected[0].assign(expected[0].size(), 0.5);
  t.parameters()[0].copy_from(std::span<double const>(expected[0]));
  CHECK(averages(t) == expected);
  CHECK(values(t.state("token.weight", "exp_avg")) == moments);
}

TEST_CASE("a skipped step changes no average; wrong values are refused") {
  averaged<ct::optimizer::adamw> t;
  step(t, 0);
  auto bias = t.parameters().back();
  std::vector<float> all(static_cast<std::size_t>(bias.size()));
  bias.copy_to(std::span(all));
  all[0] = std::nanf("");
  bias.copy_from(std::span<float const>(all));
  auto const bytes = [&] { // a NaN is not equal to itself
    std::vector<std::vector<std::byte>> of_all;
    for (auto const& p : t.parameters()) {
      auto const average = t.state(p.name, "average");
      of_all.emplace_back(static_cast<std::size_t>(average.size() * ct::size_of(average.type())));
      average.copy_bytes_to(of_all.back());
    }
    return of_all;
  };
  auto const before = bytes();
  CHECK(step(t, 1).skipped);
  CHECK(bytes() == before);
  using hyper = averaged<ct::optimizer::adamw>::hyper;
  CHECK_THROWS_WITH(averaged<ct::optimizer::adamw>(hyper{.base = {}, .decay = 1}),
                    doctest::Contains("averaged: .decay is 1"));
  CHECK_THROWS_WITH(averaged<ct::optimizer::adamw>(hyper{.base = {.beta1 = 2}}), doctest::Contains(".beta1 is 2"));
  CHECK_THROWS_WITH(t.state("token.weight", "mean"),
                    "state: token.weight has no optimizer state 'mean'; its states: exp_avg, exp_avg_sq, average");
  CHECK_THROWS_WITH(t.state("token.wieght", "exp_avg"),
                    doctest::Contains("state: there is no parameter 'token.wieght'; the parameters are "));
}
