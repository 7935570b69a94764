#include <constrain/constrain.hpp>
#include <constrain/train/port_facts.hpp>
#include <doctest/doctest.h>

// Which objectives accept a corpus.

namespace ct = constrain;

namespace {

struct encoder {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 256, .width = 8});
    auto const seen = ct::self_attention(ct::linear("qkv", x, 24), {.heads = 2, .causal = false});
    return ct::linear("head", x + seen, 256);
  }
};
struct without_the_member {
  constexpr ct::value operator()(ct::value logits, ct::value labels) const { return ct::cross_entropy(logits, labels); }
};
struct of_next_tokens : ct::classification {
  static constexpr bool labels_are_next_tokens = true;
};
struct derived : ct::classification {};

template <class objective> using task = ct::task<encoder{}, objective, ct::micro_batch{.sequences = 2, .tokens = 8}>;
template <class objective> using facts = typename ct::trainer<task<objective>>::entries;
template <class objective>
constexpr bool accepts_a_corpus =
    facts<objective>::takes_tokens&& facts<objective>::labels_tokens&& facts<objective>::accepts_next_tokens;

static_assert(accepts_a_corpus<ct::causal_lm> &&
              accepts_a_corpus<ct::causal_lm_with<ct::cross_entropy_options{.z_loss = 1e-4}>>);
static_assert(accepts_a_corpus<without_the_member> && !facts<without_the_member>::next_tokens);
static_assert(accepts_a_corpus<of_next_tokens> && facts<of_next_tokens>::next_tokens);
static_assert(!accepts_a_corpus<ct::masked_lm> && !facts<ct::masked_lm>::next_tokens);
static_assert(!accepts_a_corpus<ct::classification> && !accepts_a_corpus<derived>);
static_assert(!accepts_a_corpus<ct::classification_with<ct::cross_entropy_options{.label_smoothing = 0.1}>>);
static_assert(!accepts_a_corpus<ct::focal_classification<>>);

} // namespace

TEST_CASE("an objective that does not say what its labels are trains on a corpus as ct::causal_lm does") {
  auto const corpus = ct::data::text_from("A text to learn from, over and over again.");
  ct::trainer<task<without_the_member>> own({}, {.seed = 3});
  ct::trainer<task<ct::causal_lm>> lm({}, {.seed = 3});
  CHECK(ct::fit(own, corpus, {.steps = 3, .log = nullptr}).loss ==
        ct::fit(lm, corpus, {.steps = 3, .log = nullptr}).loss);
  CHECK(own.evaluate(corpus).loss == lm.evaluate(corpus).loss);
}
