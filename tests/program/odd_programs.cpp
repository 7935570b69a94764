#include "check_gradients.hpp"
#include "sentence.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <climits>
#include <string>

// Programs that look wrong and are legal: they compile, and train on right gradients. The illegal ones are in
// tests/refused.

namespace ct = constrain;
using namespace constrain::test;
using ct::value;

namespace {

constexpr value embed(value tokens) { return ct::embedding("token", tokens, {.vocabulary = 5, .width = 4}); }
template <class model, class objective = ct::causal_lm>
using task_of = ct::task<model{}, objective, ct::micro_batch{.sequences = 2, .tokens = 3}>;

// Names are text: empty, dotted, with blanks, quotes, a line's end, other alphabets, or long.
struct odd_names {
  constexpr value operator()(value tokens) const {
    auto x = ct::embedding("", tokens, {.vocabulary = 5, .width = 4});
    for (auto name : {"a.b", "with blanks and \"quotes\"", "line\nend", "größe", "..", "a"})
      x = x + ct::linear(name, x, 4);
    return ct::linear(
        "a name as long as a sentence, which nobody would write and nothing forbids, because a name is text", x, 5);
  }
};

// A value that is empty at first; one layer under two names; a repeat whose result is used twice, and one whose is not;
// a body that returns its argument; a sum with itself.
struct odd_shapes_of_a_program {
  struct layer {
    double scale = 0.5;
    constexpr value operator()(value x) const { return x + ct::silu(ct::linear("inner", x, 4, {.stddev = scale})); }
  };
  constexpr value operator()(value tokens) const {
    value x;
    x = embed(tokens);
    layer const same;
    x = ct::apply("first", same, ct::apply("second", same, x));
    auto const y = ct::repeat("twice", 2, x, same);
    ct::repeat("unread", 2, x, [](value v) { return ct::silu(v); });
    auto const z = ct::repeat("nothing", 3, y + y, [](value v) { return v; });
    return ct::linear("head", y * z, 5);
  }
};

// The logits are the embedding; a label for each token of a classifier; an objective with a parameter and a repeat.
struct only_a_table {
  constexpr value operator()(value tokens) const {
    return ct::embedding("token", tokens, {.vocabulary = 5, .width = 5});
  }
};
struct learned_objective {
  constexpr value operator()(value logits, value labels) const {
    auto const mixed = ct::linear("mix", logits, 5);
    return ct::cross_entropy(ct::repeat("sharpen", 2, mixed, [](value x) { return x + ct::silu(x); }), labels);
  }
};

// One of everything.
using least = ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 1, .vocabulary = 1, .context = 1}, ct::causal_lm,
                       ct::micro_batch{}>;

/// An optimizer that counts the steps of each weight.
struct counting {
  template <class real> struct state { real steps; };
  struct hyper {
    float learning_rate = 0.1f;
    int warmup = 0;
  };
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, hyper const& h, ct::optimizer_step) {
    return ++s.steps > h.warmup ? weight - static_cast<real>(h.learning_rate) * gradient : weight;
  }
};

// The largest possible counts: plans exist, and only memory limits them.
constexpr ct::gpt2 tiny{.layers = 2, .heads = 1, .width = 2, .vocabulary = 3, .context = 2};
template <int sequences> using many = ct::task<tiny, ct::causal_lm, ct::micro_batch{.sequences = sequences}>;
using many_sequences = ct::trainer<many<INT_MAX>>;
using many_micro_batches = ct::trainer<many<1>, ct::accumulate<INT_MAX>>;
static_assert(many_sequences::batch_tokens == 2ll * INT_MAX && many_micro_batches::batch_tokens == 2ll * INT_MAX);
static_assert(many_sequences::memory.peak > ct::gibibytes(1000) && many_micro_batches::memory.peak > ct::gibibytes(16));
using deep = ct::task<ct::gpt2{.layers = INT_MAX, .heads = 1, .width = 2, .vocabulary = 3, .context = 2}, ct::causal_lm,
                      ct::micro_batch{}>;
static_assert(ct::trainer<deep>::parameter_count > 20ll * INT_MAX);
// A checkpoint of more iterations than there are keeps one.
static_assert(ct::trainer<many<1>, ct::checkpoint::every<INT_MAX>>::memory.peak.count() > 0);

} // namespace

TEST_CASE("odd programs: names of all kinds") {
  using trainer = ct::trainer<task_of<odd_names>, ct::optimizer::sgd>;
  trainer t;
  auto const w = random_batch::draw<trainer>(3);
  CHECK(t.step(t.batch(w.inputs, w.labels)).loss > 0);
  auto const all = t.parameters();
  auto const there = [&](std::string_view name) {
    return std::count_if(all.begin(), all.end(), [&](auto const& p) { return p.name == name; });
  };
  CHECK(there("weight") == 1);
  CHECK(there("a.b.weight") == 1);
  CHECK(there("line\nend.bias") == 1);
  CHECK(there("größe.weight") == 1);
}

TEST_CASE("odd programs: gradients") {
  check_gradients<task_of<odd_shapes_of_a_program>>();
  check_gradients<task_of<only_a_table, learned_objective>>();
  check_gradients<task_of<only_a_table, ct::classification>>();
}

TEST_CASE("odd programs: one of everything, and an optimizer that counts") {
  ct::trainer<least, counting> t({.learning_rate = 0.1f, .warmup = 1});
  std::int32_t const zero[] = {0};
  CHECK(t.step(t.batch(zero, zero)).loss == 0); // of one class
  CHECK(t.step(t.batch(zero, zero)).loss == 0);
}

TEST_CASE("odd programs: too much memory is a sentence") {
  CHECK_FALSE(sentence([] { many_sequences t; }).empty());
}
