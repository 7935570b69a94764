#include "op/check_recomputation.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::value;

namespace {

constexpr value embed(value tokens) { return ct::embedding("token", tokens, {.vocabulary = 5, .width = 4}); }
constexpr value head(value x) { return ct::linear("head", x, 3); }
constexpr value residual(value x) { return x + ct::dropout(ct::silu(ct::linear("inner", x, 4))); }

template <class model> using lm = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 3}>;

struct simple {
  constexpr value operator()(value tokens) const { return head(ct::repeat("block", 5, embed(tokens), residual)); }
};
struct one_trip {
  constexpr value operator()(value tokens) const { return head(ct::repeat("block", 1, embed(tokens), residual)); }
};
struct captured {
  constexpr value operator()(value tokens) const {
    auto const x = embed(tokens);
    auto const h = ct::linear("side", x, 4);
    return head(ct::repeat("block", 5, x, [&](value x) { return x + ct::linear("inner", x * h, 4); }));
  }
};
struct captured_everywhere {
  constexpr value operator()(value tokens) const {
    auto const x = embed(tokens);
    auto const h = ct::linear("side", x, 4);
    auto const y = ct::repeat("block", 5, x, [&](value x) { return x + ct::linear("inner", x * h, 4) * h; });
    return head(y * h + x);
  }
};
struct captures_its_own_input {
  constexpr value operator()(value tokens) const {
    auto const x = embed(tokens);
    return head(ct::repeat("block", 5, x, [&](value y) { return y + ct::linear("inner", y * x, 4); }));
  }
};
struct used_twice {
  constexpr value operator()(value tokens) const {
    auto const x = ct::repeat("block", 5, embed(tokens), residual);
    return ct::linear("a", x, 3) + ct::linear("b", ct::silu(x), 3);
  }
};
struct input_used_after {
  constexpr value operator()(value tokens) const {
    auto const x = embed(tokens);
    return head(ct::repeat("block", 5, x, residual) + x);
  }
};
struct two_layers {
  constexpr value operator()(value tokens) const {
    return head(ct::repeat("block", 5, embed(tokens), [](value x) {
      x = x + ct::attention(ct::linear("qkv", ct::layer_norm("norm_1", x), 12), {.heads = 2});
      return x + ct::linear("down", ct::gelu(ct::linear("up", ct::layer_norm("norm_2", x), 6)), 4);
    }));
  }
};
struct nested {
  constexpr value operator()(value tokens) const {
    return head(ct::repeat("outer", 5, embed(tokens), [](value x) {
      x = x + ct::linear("before", x, 4);
      x = ct::repeat("inner", 2, x, residual);
      return x + ct::silu(ct::linear("after", x, 4));
    }));
  }
};
struct nested_directly {
  constexpr value operator()(value tokens) const {
    return head(ct::repeat("outer", 5, embed(tokens), [](value x) { return ct::repeat("inner", 2, x, residual); }));
  }
};
struct nested_three {
  constexpr value operator()(value tokens) const {
    return head(ct::repeat("a", 2, embed(tokens), [](value x) {
      return ct::repeat("b", 3, x, [](value x) { return ct::repeat("c", 2, x, residual) + x; }) + x;
    }));
  }
};
struct nested_captured {
  constexpr value operator()(value tokens) const {
    auto const x = embed(tokens);
    auto const h = ct::linear("side", x, 4);
    return head(ct::repeat("outer", 5, x, [&](value x) {
      auto const g = ct::linear("gate", x, 4);
      auto const y = ct::repeat("inner", 2, x, [&](value y) { return y + ct::dropout(ct::linear("inner", y * g + x, 4)) * h; });
      return y * g + ct::silu(y);
    }));
  }
};
struct tied {
  constexpr value operator()(value tokens) const {
    auto const table = ct::parameter(tokens, "table", ct::shape(5, 4), ct::role::embedding, {.deviation = 0.02});
    auto const square = ct::parameter(tokens, "square", ct::shape(4, 4), ct::role::weight, {.deviation = 0.02});
    auto x = ct::linear(ct::embedding(table, tokens), square);
    x = ct::repeat("block", 5, x, [&](value x) { return x + ct::silu(ct::linear(residual(x), square)); });
    return ct::linear(x, table);
  }
};
struct shared_only {
  constexpr value operator()(value tokens) const {
    auto const square = ct::parameter(tokens, "square", ct::shape(4, 4), ct::role::weight, {.deviation = 0.02});
    return head(ct::repeat("block", 5, embed(tokens), [&](value x) { return x + ct::silu(ct::linear(x, square)); }));
  }
};
struct tied_in_nested {
  constexpr value operator()(value tokens) const {
    auto const square = ct::parameter(tokens, "square", ct::shape(4, 4), ct::role::weight, {.deviation = 0.02});
    return head(ct::repeat("outer", 5, ct::linear(embed(tokens), square), [&](value x) {
      auto const own = ct::parameter(x, "own", ct::shape(4, 4), ct::role::weight, {.deviation = 0.02});
      x = ct::linear(x, own);
      x = ct::repeat("inner", 2, x, [&](value x) { return residual(x) + ct::linear(ct::silu(ct::linear(x, own)), square); });
      return x + ct::linear(x, square);
    }));
  }
};
struct two_repeats {
  constexpr value operator()(value tokens) const {
    auto const x = ct::repeat("a", 5, embed(tokens), residual);
    return head(ct::repeat("b", 4, ct::silu(x), [](value x) { return x + ct::layer_norm("norm", residual(x)); }));
  }
};
struct two_repeats_directly {
  constexpr value operator()(value tokens) const {
    auto const x = ct::repeat("a", 5, embed(tokens), residual);
    return head(ct::repeat("b", 4, x, [](value x) { return x + ct::layer_norm("norm", residual(x)); }));
  }
};
struct second_captures_first {
  constexpr value operator()(value tokens) const {
    auto const x = ct::repeat("a", 5, embed(tokens), residual);
    auto const y = ct::repeat("b", 4, x, [&](value y) { return y + ct::linear("mix", y * x, 4); });
    return head(y + x);
  }
};
struct encoder_decoder {
  constexpr value operator()(value tokens) const {
    auto const start = embed(tokens);
    auto const x = ct::repeat("a", 5, start, residual);
    return head(ct::repeat("b", 4, start, [&](value y) { return residual(y) + ct::linear("mix", x, 4); }));
  }
};
struct side_by_side {
  constexpr value operator()(value tokens) const {
    auto const x = embed(tokens);
    return head(ct::repeat("a", 5, x, residual) + ct::repeat("b", 4, x, residual));
  }
};
struct identity {
  constexpr value operator()(value tokens) const {
    return head(ct::repeat("nothing", 5, embed(tokens), [](value x) { return x; }));
  }
};
struct returns_sum_with_itself {
  constexpr value operator()(value tokens) const {
    return head(ct::repeat("block", 5, embed(tokens), [](value x) { auto y = residual(x); return y + y; }));
  }
};
struct two_inner {
  constexpr value operator()(value tokens) const {
    return head(ct::repeat("outer", 5, embed(tokens), [](value x) {
      auto const a = ct::repeat("a", 2, x, residual);
      auto const b = ct::repeat("b", 3, x, [&](value y) { return residual(y) * a; });
      return a + b;
    }));
  }
};
} // namespace

#ifdef PART
#define CASE(n) TEST_CASE("repeat: " #n) { check_recomputation<lm<n>>(); } 
#else
#define CASE(n) TEST_CASE("repeat: " #n) { check_recomputation<lm<n>>(); } TEST_CASE("repeat accumulated: " #n) { check_recomputation<lm<n>, ct::accumulate<2>>(); }
#endif
#if !defined(PART) || PART==1
CASE(simple)
CASE(one_trip)
CASE(captured)
CASE(captured_everywhere)
CASE(captures_its_own_input)
CASE(used_twice)
CASE(input_used_after)
CASE(two_layers)
#endif
#if !defined(PART) || PART==2
CASE(nested)
CASE(nested_directly)
CASE(nested_three)
CASE(nested_captured)
CASE(two_inner)
CASE(tied_in_nested)
#endif
#if !defined(PART) || PART==3
CASE(tied)
CASE(shared_only)
CASE(two_repeats)
CASE(two_repeats_directly)
CASE(second_captures_first)
CASE(encoder_decoder)
CASE(side_by_side)
CASE(identity)
CASE(returns_sum_with_itself)
#endif
