#include "op/check_recomputation.hpp"

// Bodies that read what was made outside: activations, parameters, tokens. Their gradients add up over the iterations.

namespace ct = constrain;
using namespace constrain::test;
using ct::value;

namespace {

constexpr value embed(value tokens) { return ct::embedding("token", tokens, {.vocabulary = 5, .width = 4}); }
constexpr value head(value x) { return ct::linear("head", x, 3); }
constexpr value layer(value x) { return x + ct::dropout(ct::silu(ct::linear("inner", x, 4))); }
constexpr value matrix(value like, char const* name, int rows = 4, int columns = 4) {
  return ct::parameter(like, name, ct::shape(rows, columns), ct::role::weight, {.stddev = 0.02});
}

template <class model> using lm = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 3}>;

// Only inside; and what the loop starts from.
struct captured {
  constexpr value operator()(value tokens) const {
    auto const x = embed(tokens);
    auto const h = ct::linear("side", x, 4);
    return head(
        ct::repeat("block", 5, x, [&](value y) { return y + ct::linear("inner", y * h, 4) + ct::silu(x * y); }));
  }
};
// Twice inside, before and after.
struct captured_everywhere {
  constexpr value operator()(value tokens) const {
    auto const x = embed(tokens);
    auto const h = ct::linear("side", x, 4);
    auto const y = ct::repeat("block", 5, x + h, [&](value x) { return x + ct::linear("inner", x * h, 4) * h; });
    return head(y * h + x);
  }
};
// The result of one repeat inside another that starts from it, and inside one that does not.
struct of_another_repeat {
  constexpr value operator()(value tokens) const {
    auto const start = embed(tokens);
    auto const x = ct::repeat("a", 5, start, layer);
    auto const y = ct::repeat("b", 4, x, [&](value y) { return y + ct::linear("mix", y * x, 4); });
    auto const z = ct::repeat("c", 2, start, [&](value z) { return layer(z) + ct::linear("mix", y, 4); });
    return head(z + x);
  }
};
// One weight used before, inside and after the loop; one only inside; the tokens and their table inside.
struct tied {
  constexpr value operator()(value tokens) const {
    auto const table = ct::parameter(tokens, "table", ct::shape(5, 4), ct::role::embedding, {.stddev = 0.02});
    auto const square = matrix(tokens, "square"), shared = matrix(tokens, "shared");
    auto x = ct::linear(ct::embedding(table, tokens), square);
    x = ct::repeat("block", 5, x, [&](value x) {
      x = ct::position_embedding("position", x + ct::silu(ct::linear(layer(x), square)), {.context = 4});
      x = x + ct::embedding("again", tokens, {.vocabulary = 5, .width = 4});
      return ct::linear(x, shared) + ct::silu(ct::embedding(table, tokens));
    });
    return ct::linear(x, table);
  }
};
// Weights that are computed: outside for all iterations, inside from an iteration's own parameter and from a shared
// one.
struct computed_weights {
  constexpr value operator()(value tokens) const {
    auto const b = matrix(tokens, "b", 4, 2);
    auto const outside = ct::linear(matrix(tokens, "a", 4, 2), b) + matrix(tokens, "base");
    auto const x = ct::linear(embed(tokens), outside);
    return head(ct::repeat("block", 5, x, [&](value x) {
      auto const inside = ct::silu(ct::linear(matrix(x, "a", 4, 2), b));
      return x + ct::dropout(ct::linear(ct::linear(x, outside), inside));
    }));
  }
};
// A loop that starts from a parameter, which the body reads too; gates as large as an activation.
struct learned_start {
  constexpr value operator()(value tokens) const {
    auto const start = ct::parameter(tokens, "start", ct::shape(1, 3, 4), ct::role::weight, {.stddev = 0.02});
    auto const x = embed(tokens);
    return head(ct::repeat("block", 5, start, [&](value y) {
      auto const gate = ct::parameter(y, "gate", ct::shape(1, 3, 4), ct::role::weight, {.stddev = 0.02});
      return layer(y) * gate + x * start;
    }));
  }
};
using started = ct::task<learned_start{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 3}>;

} // namespace

TEST_CASE("repeat: gradients of a value captured by the body") { check_recomputation<lm<captured>, 1, 2, 3>(); }
TEST_CASE("repeat: gradients of a value captured and used around it") {
  check_recomputation<lm<captured_everywhere>, 2>();
  with<ct::accumulate<2>>::check_recomputation<lm<captured_everywhere>, 1, 3>();
}
TEST_CASE("repeat: gradients of a repeat captured by another") {
  with<ct::accumulate<2>>::check_recomputation<lm<of_another_repeat>, 1, 3>();
}
TEST_CASE("repeat: gradients of weights tied inside and outside") {
  check_recomputation<lm<tied>, 1, 2>();
  with<ct::accumulate<2>>::check_recomputation<lm<tied>, 3>();
}
TEST_CASE("repeat: gradients through computed weights") {
  with<ct::accumulate<2>>::check_recomputation<lm<computed_weights>, 2>();
}
TEST_CASE("repeat: gradients of a learned start") { with<ct::accumulate<3>>::check_recomputation<started, 2>(); }
