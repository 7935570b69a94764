#pragma once

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace constrain::test {

/// `losses_of`, with every step enqueued before the result of the step before is read.
template <class trainer> std::vector<double> losses_one_late(trainer& t, int steps, unsigned first = 0) {
  std::vector<double> losses;
  std::optional<step_ticket> before;
  for (unsigned i = first; i < first + static_cast<unsigned>(steps); ++i) {
    auto w = tokens_for<trainer>(i % 3);
    auto now = t.enqueue(t.batch(w.inputs, w.labels));
    w.inputs.assign(w.inputs.size(), 0); // the arrays are free again
    if (before) losses.push_back(before->wait().loss);
    before = std::move(now);
  }
  losses.push_back(before->wait().loss);
  return losses;
}

template <class task, class... policies> void enqueued_is_stepped(double clip_norm = 1) {
  using trainer = trainer<task, policies..., device_policy>;
  CAPTURE(trainer::policy_set::name());
  auto run = numbers;
  run.clip_norm = clip_norm;
  trainer stepped({}, run), enqueued({}, run);
  CHECK(same_bits(losses_of(stepped, 5), losses_one_late(enqueued, 5)));
  CHECK(same_bits(weights_of(stepped), weights_of(enqueued)));
  CHECK(same_bits(losses_of(stepped, 2, 1), losses_one_late(enqueued, 2, 1)));
  CHECK(same_bits(weights_of(stepped), weights_of(enqueued)));
}

/// The last token of the classifier's vocabulary.
inline constexpr std::int32_t last_token = 40;

/// Batches of the classifier, some of which contain `last_token`.
template <class trainer> std::vector<token_arrays> batches_with(std::vector<bool> const& contain) {
  std::vector<token_arrays> all;
  for (bool const contains : contain) {
    all.push_back(tokens_for<trainer>(static_cast<unsigned>(all.size())));
    for (auto& token : all.back().inputs) token %= last_token;
    if (contains) all.back().inputs[3] = last_token;
  }
  return all;
}

/// Makes the embedding of `last_token` infinite, so that a batch that contains this token is skipped.
template <class trainer> void break_last_token(trainer& t) {
  auto const embedding = t.parameters()[0];
  REQUIRE(embedding.name == "token.weight");
  std::vector<float> values(static_cast<std::size_t>(embedding.size()));
  embedding.copy_to(std::span(values));
  values.back() = std::numeric_limits<float>::infinity();
  embedding.copy_from(std::span<float const>(values));
}

template <class... policies> void skipped_steps_are_stepped() {
  using trainer = trainer<classifier, policies..., device_policy>;
  CAPTURE(trainer::policy_set::name());
  auto const all = batches_with<trainer>({false, true, false, false, true, true, true, false, false, true});
  trainer stepped({.learning_rate = 1e-2f}, numbers), enqueued({.learning_rate = 1e-2f}, numbers);
  break_last_token(stepped), break_last_token(enqueued);
  std::optional<step_ticket> before;
  std::vector<step_result> expected;
  auto const check_before = [&](step_result const& result) {
    step_result const found = before->wait();
    CHECK(same_bits({found.loss, found.gradient_norm}, {result.loss, result.gradient_norm}));
    CHECK(found.tokens == result.tokens);
    CHECK(found.skipped == result.skipped);
    CHECK(found.not_finite == result.not_finite);
    CHECK(found.more_not_finite == result.more_not_finite);
  };
  for (auto const& w : all) {
    expected.push_back(stepped.step(stepped.batch(w.inputs, w.labels)));
    auto now = enqueued.enqueue(enqueued.batch(w.inputs, w.labels));
    if (before) check_before(expected[expected.size() - 2]);
    before = std::move(now);
  }
  CHECK(enqueued.state().skipped == stepped.state().skipped);
  CHECK(stepped.state().skipped >= 5); // precision::fp16 also skips the first step
  check_before(expected.back());
  CHECK(same_bits(weights_of(stepped), weights_of(enqueued)));
}

} // namespace constrain::test
