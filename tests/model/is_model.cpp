#include <constrain/model/gpt2.hpp>
#include <constrain/model/is_model.hpp>
#include <constrain/model/is_objective.hpp>
#include <constrain/model/objective/causal_lm.hpp>
#include <constrain/model/objective/classification.hpp>
#include <constrain/model/task.hpp>

// The requirements of models, objectives and tasks, positive and negative.

using namespace constrain;

namespace {

static_assert(is_model<gpt2> && is_objective<causal_lm> && is_objective<classification>);
static_assert(!is_model<causal_lm> && !is_objective<gpt2> && !is_model<int> && !is_objective<int>);

struct layer {
  constexpr value operator()(value x) const { return x; }
};
struct not_const {
  constexpr value operator()(value x) { return x; }
};
struct of_nothing {
  constexpr void operator()(value) const {}
};
struct of_two {
  constexpr value operator()(value x, value) const { return x; }
};
struct with_a_number {
  int number;
  constexpr with_a_number(int n) : number(n) {}
  constexpr value operator()(value logits, value) const { return logits; }
};
static_assert(is_model<layer> && !is_model<not_const> && !is_model<of_nothing> && !is_model<of_two>);
static_assert(is_objective<of_two> && !is_objective<layer> && !is_objective<with_a_number>);

struct written_by_hand {
  using objective = causal_lm;
  static constexpr std::int64_t sequences = 1, tokens = 8;
  static constexpr program build(entry, dtype) { return program(); }
};
struct without_objective {
  static constexpr std::int64_t sequences = 1, tokens = 8;
  static constexpr program build(entry, dtype) { return program(); }
};
struct without_tokens {
  using objective = causal_lm;
  static constexpr std::int64_t sequences = 1;
  static constexpr program build(entry, dtype) { return program(); }
};
struct without_build : written_by_hand {
  static constexpr program build(entry) { return program(); }
};
static_assert(is_task<task<gpt2{}, causal_lm, micro_batch{}>> && is_task<written_by_hand>);
static_assert(!is_task<int> && !is_task<gpt2> && !is_task<causal_lm>);
static_assert(without_objective::sequences == 1 && without_objective::tokens == 8 && !is_task<without_objective> &&
              !is_task<without_tokens> && !is_task<without_build>);

} // namespace
