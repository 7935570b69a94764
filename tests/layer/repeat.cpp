#include "op/check_recomputation.hpp"

#include <string_view>

// Each model has iterations that 2 and 3 do not divide. See also repeat_captured.cpp and repeat_nested.cpp.

namespace ct = constrain;
using namespace constrain::test;
using ct::value;

namespace {

constexpr value embed(value tokens) { return ct::embedding("token", tokens, {.vocabulary = 5, .width = 4}); }
constexpr value head(value x) { return ct::linear("head", x, 3); }
constexpr value layer(value x) { return x + ct::dropout(ct::silu(ct::linear("inner", x, 4))); }

template <auto model> using lm = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 3}>;

struct simple {
  int iterations = 5;
  constexpr value operator()(value tokens) const { return head(ct::repeat("block", iterations, embed(tokens), layer)); }
};
// The input is read again after the loop, and the output is read twice.
struct ends_used_again {
  constexpr value operator()(value tokens) const {
    auto const x = embed(tokens);
    auto const y = ct::repeat("block", 5, x, layer);
    return ct::linear("a", y, 3) + ct::linear("b", ct::silu(y) + x, 3);
  }
};
struct transformer {
  constexpr value operator()(value tokens) const {
    return head(ct::repeat("block", 5, embed(tokens), [](value x) {
      x = x + ct::self_attention(ct::linear("qkv", ct::layer_norm("norm_1", x), 12), {.heads = 2});
      return x + ct::linear("down", ct::gelu(ct::linear("up", ct::layer_norm("norm_2", x), 6)), 4);
    }));
  }
};
// One after the other, with and without something between, and side by side.
struct several {
  constexpr value operator()(value tokens) const {
    auto const x = embed(tokens);
    auto y = ct::repeat("a", 5, x, layer);
    y = ct::repeat("b", 4, y, [](value x) { return x + ct::layer_norm("norm", layer(x)); });
    y = ct::repeat("c", 2, ct::silu(y), layer);
    return head(y + ct::repeat("d", 3, x, layer));
  }
};
// One iteration; a body that does nothing; a body that returns a sum with itself.
struct trivial {
  constexpr value operator()(value tokens) const {
    auto const x = ct::repeat("once", 1, embed(tokens), layer);
    auto const y = ct::repeat("nothing", 5, x, [](value x) { return x; });
    return head(ct::repeat("doubled", 5, y, [](value x) {
      auto const y = ct::layer_norm("norm", layer(x));
      return y + y;
    }));
  }
};
// Values that nobody reads; a loop-carried value that is both operands; the logits are what the loop carries.
struct no_head {
  constexpr value operator()(value tokens) const {
    auto const x = embed(tokens);
    ct::repeat("unread", 3, x, [](value x) { return ct::silu(x); });
    return ct::repeat("block", 5, x, [](value x) {
      ct::silu(x * x);
      return ct::layer_norm("norm", ct::linear("inner", x * x, 4) + (x + x));
    });
  }
};
// A repeat of something that has no tokens; an objective with a repeat of its own.
struct classifier {
  constexpr value operator()(value tokens) const {
    return head(ct::repeat("block", 4, ct::mean(embed(tokens), ct::axis::tokens), layer));
  }
};
struct sharpened {
  constexpr value operator()(value logits, value labels) const {
    return ct::cross_entropy(ct::repeat("sharpen", 3, logits, [](value x) { return x + ct::silu(x); }), labels);
  }
};
using classified = ct::task<classifier{}, sharpened, ct::micro_batch{.sequences = 3, .tokens = 2}>;

template <int iterations, class... list>
using trained = ct::trainer<lm<simple{iterations}>, ct::precision::fp32, ct::optimizer::sgd, list...>;

// The program holds the body once; only the stacks grow.
static_assert(trained<96>::entries::step::steps == trained<12>::entries::step::steps);
static_assert(trained<96>::parameter_count - trained<12>::parameter_count == 84 * (4 * 4 + 4));
static_assert(trained<96, ct::checkpoint::every<4>>::memory.activations.count() * 2 <
              trained<96>::memory.activations.count());
static_assert(trained<96, ct::checkpoint::sqrt>::memory.activations ==
              trained<96, ct::checkpoint::every<10>>::memory.activations);

// The same model without a repeat.
struct plain_layer {
  constexpr value operator()(value x) const { return ct::layer_norm("norm", x + ct::silu(ct::linear("inner", x, 4))); }
};
struct rolled {
  constexpr value operator()(value tokens) const { return head(ct::repeat("block", 3, embed(tokens), plain_layer{})); }
};
struct unrolled {
  constexpr value operator()(value tokens) const {
    auto x = embed(tokens);
    for (auto name : {"block_0", "block_1", "block_2"}) x = ct::apply(name, plain_layer{}, x);
    return head(x);
  }
};

// Frozen before the loop, inside, or both.
struct partly_frozen {
  ct::role before, inside;
  constexpr value operator()(value tokens) const {
    auto const table = ct::parameter(tokens, "table", ct::shape(5, 4), before, {.stddev = 0.5});
    auto const x = ct::embedding(table, tokens);
    return head(ct::repeat("block", 5, x, [this](value x) {
      auto const w = ct::parameter(x, "w", ct::shape(4, 4), inside, {.stddev = 0.5});
      return x + ct::silu(ct::linear(x, w));
    }));
  }
};

template <ct::role before, ct::role inside, class... list> void check_frozen() {
  static constexpr partly_frozen nothing_frozen{ct::role::embedding, ct::role::weight};
  using all = ct::trainer<lm<nothing_frozen>, ct::precision::fp64, ct::optimizer::sgd>;
  using some = ct::trainer<lm<partly_frozen{before, inside}>, ct::precision::fp64, ct::optimizer::sgd, list...>;
  ct::run_options const run{.seed = 4, .checked = true};
  all a({.learning_rate = 0.1f}, run);
  some b({.learning_rate = 0.1f}, run);
  auto const w = random_batch::draw<all>(2);
  auto const loss = a.step(a.batch(w.inputs, w.labels)).loss;
  CHECK(b.step(b.batch(w.inputs, w.labels)).loss == loss);
  all const untouched({}, run);
  for (auto const& p : b.parameters()) {
    CAPTURE(std::string(p.name));
    std::vector<double> got(static_cast<std::size_t>(p.size())), expected = got;
    for (auto const& q : untouched.parameters())
      if (q.name == p.name) q.copy_to(std::span<double>(expected));
    p.copy_to(std::span<double>(got));
    CHECK(same_bits(got, expected) == !ct::is_trainable(p.role));
    if (!ct::is_trainable(p.role)) continue;
    b.gradient(p.name).copy_to(std::span<double>(got));
    a.gradient(p.name).copy_to(std::span<double>(expected));
    CHECK(same_bits(got, expected));
  }
}

} // namespace

TEST_CASE("repeat: what is frozen stays, the others' gradients are the same") {
  check_frozen<ct::role::frozen, ct::role::weight, ct::checkpoint::every<2>>();
  check_frozen<ct::role::embedding, ct::role::frozen, ct::checkpoint::every<2>>();
  check_frozen<ct::role::frozen, ct::role::frozen, ct::checkpoint::every<2>>();
  check_frozen<ct::role::frozen, ct::role::frozen>();
}

TEST_CASE("repeat: gradients, kept and recomputed") {
  check_recomputation<lm<simple{}>, 1, 2, 3>();
  with<ct::accumulate<2>>::check_recomputation<lm<simple{}>, 2>();
}
TEST_CASE("repeat: gradients where both ends are used again") { check_recomputation<lm<ends_used_again{}>, 1, 3>(); }
TEST_CASE("repeat: gradients of a transformer's block") { check_recomputation<lm<transformer{}>, 2, 3>(); }
TEST_CASE("repeat: gradients of several") { with<ct::accumulate<2>>::check_recomputation<lm<several{}>, 2, 3>(); }
TEST_CASE("repeat: gradients of trivial bodies") { check_recomputation<lm<trivial{}>, 1, 2>(); }
TEST_CASE("repeat: gradients where the loop carries the logits") { check_recomputation<lm<no_head{}>, 2>(); }
TEST_CASE("repeat: gradients on a matrix and in an objective") {
  with<ct::accumulate<3>>::check_recomputation<classified, 2>();
}

TEST_CASE("repeat: bit-identical to the layers written out") {
  using one = ct::trainer<lm<rolled{}>, ct::precision::fp64, ct::optimizer::sgd>;
  using other = ct::trainer<lm<unrolled{}>, ct::precision::fp64, ct::optimizer::sgd>;
  one a({.learning_rate = 0.1f});
  other b({.learning_rate = 0.1f});
  // Each stack's iterations, laid one after another, are the layers' own tensors.
  auto const written_out = [](std::string_view name, auto const& visit) {
    if (!name.starts_with("block.")) return visit(std::string(name));
    for (auto layer : {"block_0", "block_1", "block_2"}) visit(layer + std::string(name.substr(5)));
  };
  for (auto const& p : a.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span<double>(values));
    std::span<double const> rest(values);
    written_out(p.name, [&](std::string const& name) {
      for (auto const& q : b.parameters()) {
        if (q.name != name) continue;
        q.copy_from(rest.first(static_cast<std::size_t>(q.size())));
        rest = rest.subspan(static_cast<std::size_t>(q.size()));
      }
    });
    CHECK(rest.empty());
  }
  auto const w = random_batch::draw<one>(2);
  CHECK(same_bits(a.predict(w.inputs).logits, b.predict(w.inputs).logits));
  CHECK(a.step(a.batch(w.inputs, w.labels)).loss == b.step(b.batch(w.inputs, w.labels)).loss);
  for (auto const& p : a.parameters()) {
    CAPTURE(std::string(p.name));
    std::vector<double> stacked(static_cast<std::size_t>(p.size())), separate;
    a.gradient(p.name).copy_to(std::span<double>(stacked));
    written_out(p.name, [&](std::string const& name) {
      auto const g = b.gradient(name);
      std::vector<double> values(static_cast<std::size_t>(g.size()));
      g.copy_to(std::span<double>(values));
      separate.insert(separate.end(), values.begin(), values.end());
    });
    CHECK(same_bits(stacked, separate));
  }
  CHECK(same_bits(a.predict(w.inputs).logits, b.predict(w.inputs).logits));
}
