#include "op/check_recomputation.hpp"

// Repeats within repeats: checkpointing keeps only the inputs of the outermost iterations.

namespace ct = constrain;
using namespace constrain::test;
using ct::value;

namespace {

constexpr value embed(value tokens) { return ct::embedding("token", tokens, {.vocabulary = 5, .width = 4}); }
constexpr value head(value x) { return ct::linear("head", x, 3); }
constexpr value layer(value x) { return x + ct::dropout(ct::silu(ct::linear("inner", x, 4))); }
constexpr value matrix(value like, char const* name) {
  return ct::parameter(like, name, ct::shape(4, 4), ct::role::weight, {.stddev = 0.02});
}

template <class model> using lm = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 3}>;

struct nested {
  constexpr value operator()(value tokens) const {
    return head(ct::repeat("outer", 5, embed(tokens), [](value x) {
      x = x + ct::linear("before", x, 4);
      x = ct::repeat("inner", 2, x, layer);
      return x + ct::silu(ct::linear("after", x, 4));
    }));
  }
};
// Nothing but repeats in the bodies, three deep.
struct directly {
  constexpr value operator()(value tokens) const {
    return head(ct::repeat("a", 3, embed(tokens), [](value x) {
      return ct::repeat("b", 2, x, [](value x) { return ct::repeat("c", 3, x, layer); });
    }));
  }
};
// Two repeats in one body; the second reads what the first returned.
struct two_inside {
  constexpr value operator()(value tokens) const {
    return head(ct::repeat("outer", 5, embed(tokens), [](value x) {
      auto const a = ct::repeat("a", 2, x, layer);
      auto const b = ct::repeat("b", 3, x, [&](value y) { return layer(y) + ct::layer_norm("norm", y * a); });
      return a + b;
    }));
  }
};
// Every depth reads every depth above, the loop-carried values too.
struct captured {
  constexpr value operator()(value tokens) const {
    auto const x0 = embed(tokens);
    return head(ct::repeat("a", 3, x0, [&](value x) {
      auto const g = ct::linear("g", x, 4);
      x = ct::repeat("b", 2, layer(x), [&](value x) {
        auto const h = ct::silu(ct::linear("h", x * g, 4));
        x = ct::repeat("c", 3, x + h, [&](value y) { return layer(y) + ct::linear("k", h * y + x + g, 4); });
        return ct::layer_norm("norm", x + h * x0);
      });
      return x + g;
    }));
  }
};
// A weight of the outer body and one from outside, both tied into the inner body.
struct tied {
  constexpr value operator()(value tokens) const {
    auto const shared = matrix(tokens, "shared");
    return head(ct::repeat("outer", 5, ct::linear(embed(tokens), shared), [&](value x) {
      auto const own = matrix(x, "own");
      x = ct::linear(x, own);
      x = ct::repeat("inner", 2, x,
                     [&](value x) { return layer(x) + ct::linear(ct::silu(ct::linear(x, own)), shared); });
      return x + ct::linear(x, shared);
    }));
  }
};

} // namespace

TEST_CASE("repeat: gradients of a repeat in a repeat") {
  check_recomputation<lm<nested>, 1, 2>();
  with<ct::accumulate<2>>::check_recomputation<lm<nested>, 3>();
}
TEST_CASE("repeat: gradients three deep") { check_recomputation<lm<directly>, 1, 2>(); }
TEST_CASE("repeat: gradients of two in one body") { check_recomputation<lm<two_inside>, 1, 3>(); }
TEST_CASE("repeat: gradients of values captured over several depths") {
  with<ct::accumulate<2>>::check_recomputation<lm<captured>, 1, 2>();
}
TEST_CASE("repeat: gradients of weights tied over several depths") {
  check_recomputation<lm<tied>, 3>();
  with<ct::accumulate<2>>::check_recomputation<lm<tied>, 2>();
}
