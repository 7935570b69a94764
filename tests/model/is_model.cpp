#include <constrain/model/gpt2.hpp>
#include <constrain/model/is_model.hpp>
#include <constrain/model/objective/causal_lm.hpp>
#include <constrain/model/objective/classification.hpp>

// What a model and an objective must offer, both signs.

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

} // namespace
