// Programs of every form under ZeRO: the bits of ddp, nothing stale in checked mode; ranks with several inputs.
// Started with 2 processes.

#include <constrain/constrain.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace ct = constrain;
using ct::value;

namespace {

int failures = 0;

constexpr int width = 37; // matrices of several chunks, so that ranks hold pieces of them
constexpr value embed(value tokens) { return ct::embedding("token", tokens, {.vocabulary = 7, .width = width}); }
constexpr value layer(value x) { return x + ct::dropout(ct::silu(ct::linear("inner", x, width))); }

struct two_layers_in_a_block {
  constexpr value operator()(value tokens) const {
    return ct::linear("head",
                      ct::repeat("block", 5, embed(tokens),
                                 [](value x) {
                                   x = x + ct::linear("down", ct::gelu(ct::linear("up", ct::layer_norm("norm", x), 71)),
                                                      width);
                                   return ct::apply("second", layer, x);
                                 }),
                      3);
  }
};
struct nested {
  constexpr value operator()(value tokens) const {
    auto const x = embed(tokens);
    return ct::linear("head",
                      ct::repeat("outer", 3, x,
                                 [&](value y) {
                                   auto const captured = ct::linear("captured", y, width);
                                   return y + ct::repeat("inner", 2, y + x, [&](value z) {
                                            return ct::apply("layer", layer, z) * captured;
                                          });
                                 }),
                      3);
  }
};
// One weight inside a repeat, inside a nested one, and outside.
struct tied {
  constexpr value operator()(value tokens) const {
    auto const shared = ct::parameter(tokens, "shared", ct::shape(width, width), ct::role::weight, {.stddev = 0.1});
    auto x = ct::linear(embed(tokens), shared);
    x = ct::repeat("block", 5, x, [&](value x) {
      return x + ct::silu(ct::linear(x, shared)) +
             ct::repeat("deep", 2, x, [&](value z) { return layer(ct::linear(z, shared)); });
    });
    return ct::linear("head", ct::linear(x, shared), 3);
  }
};
struct two_repeats {
  constexpr value operator()(value tokens) const {
    auto const x = embed(tokens);
    auto const y = ct::repeat("a", 5, x, layer);
    auto const z = ct::repeat("b", 4, y + x, [](value x) { return ct::layer_norm("norm", layer(x)); });
    return ct::linear("head", z + y, 3); // what the first gives is used twice
  }
};

// Integers of each token and of each sequence, and reals; real labels.
struct several_inputs {
  static constexpr ct::port_spec inputs[] = {
      {.name = "tokens"},
      {.name = "lengths", .each = ct::per::sequence},
      {.name = "features", .type = ct::port_type::real, .each = ct::per::sequence, .features = 5}};
  constexpr value operator()(value tokens, value lengths, value features) const {
    auto const qkv = ct::linear("qkv", embed(tokens), 24);
    auto const pooled = ct::mean(ct::self_attention(qkv, lengths, {.heads = 2}), ct::axis::tokens);
    return ct::linear("head", pooled + ct::linear("features", features, 8), 2);
  }
};

template <class trainer> std::vector<double> three_steps(bool checked) {
  trainer t{{.learning_rate = 1e-2f}, {.seed = 5, .clip_norm = 0.5, .dropout = 0.3, .checked = checked}};
  std::mt19937 random(static_cast<unsigned>(t.rank()));
  std::vector<std::int32_t> inputs(trainer::batch_tokens), labels(inputs.size());
  std::vector<double> all;
  for (int i = 0; i < 3; ++i) {
    for (auto& token : inputs) token = static_cast<std::int32_t>(random() % 7);
    for (auto& label : labels) label = static_cast<std::int32_t>(random() % 3);
    auto const r = t.step(t.batch(inputs, labels));
    all.push_back(r.loss);
    all.push_back(r.gradient_norm);
  }
  for (auto const& p : t.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(p.size()));
    t.gradient(p.name).copy_to(std::span<double>(values));
    all.insert(all.end(), values.begin(), values.end());
    p.copy_to(std::span<double>(values));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

template <auto model> void compare(char const* name) {
  using task = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 3}>;
  using zero = ct::parallel::zero<3, 2>;
  auto const expected = three_steps<ct::trainer<task, ct::parallel::ddp>>(true);
  auto const check = [&](bool holds, char const* what) {
    if (holds) return;
    ++failures;
    std::fprintf(stderr, "FAILED: %s: %s is not ddp bit for bit\n", name, what);
  };
  check(three_steps<ct::trainer<task, zero>>(true) == expected, "zero");
  check(three_steps<ct::trainer<task, zero, ct::checkpoint::every<2>>>(true) == expected, "zero with checkpointing");
  check(three_steps<ct::trainer<task, zero, ct::checkpoint::every<1>>>(false) == expected,
        "zero with every iteration recomputed");
  check(three_steps<ct::trainer<task, ct::parallel::zero<1, 2>, ct::checkpoint::every<2>>>(true) == expected,
        "zero of stage 1");
  check(three_steps<ct::trainer<task, ct::parallel::zero<2, 2>>>(true) == expected, "zero of stage 2");
}

/// Two ranks with one micro-batch each, and one process with both, take the same steps. A wrong array on one rank is an
/// error on both.
void compare_several_inputs() {
  using task = ct::task<several_inputs{}, ct::mean_squared_error, ct::micro_batch{.sequences = 3, .tokens = 4}>;
  ct::trainer<task, ct::precision::fp64, ct::parallel::ddp> ranks{{.learning_rate = 1e-2f}, {.checked = true}};
  ct::trainer<task, ct::precision::fp64, ct::accumulate<2>> one{{.learning_rate = 1e-2f}};
  std::mt19937 random(3);
  std::vector<std::int32_t> tokens(24), lengths(6);
  std::vector<double> features(30), targets(12);
  auto const mine = [&](auto const& of) {
    return std::span(of).subspan(static_cast<std::size_t>(ranks.rank()) * of.size() / 2, of.size() / 2);
  };
  for (int i = 0; i < 3; ++i) {
    for (auto& token : tokens) token = static_cast<std::int32_t>(random() % 7);
    for (auto& length : lengths) length = static_cast<std::int32_t>(random() % 5);
    for (auto& x : features) x = static_cast<double>(random() % 100) / 50 - 1;
    for (auto& x : targets) x = static_cast<double>(random() % 100) / 50 - 1;
    auto const expected = one.step(one.batch({tokens, lengths, features}, targets));
    auto const r = ranks.step(ranks.batch({mine(tokens), mine(lengths), mine(features)}, mine(targets)));
    if (std::abs(r.loss - expected.loss) < 1e-12 && std::abs(r.gradient_norm - expected.gradient_norm) < 1e-12 &&
        r.tokens == 12)
      continue;
    ++failures;
    std::fprintf(stderr, "FAILED: several inputs: step %d differs from one process\n", i);
  }
  auto const wrong = ranks.batch({mine(tokens), mine(lengths), mine(features)}, mine(targets));
  if (ranks.rank() == 1) lengths.back() = 5;
  try {
    ranks.step(wrong);
    ++failures;
    std::fprintf(stderr, "FAILED: several inputs: rank %d did not hear of a wrong length\n", ranks.rank());
  } catch (ct::error const& e) {
    if (std::string(e.what()).find("the input \"lengths\" is 5 at index 2, outside [0, 5)") != std::string::npos)
      return;
    ++failures;
    std::fprintf(stderr, "FAILED: several inputs: %s\n", e.what());
  }
}

} // namespace

int main() {
  compare_several_inputs();
  compare<two_layers_in_a_block{}>("two layers in a block");
  compare<nested{}>("nested repeats");
  compare<tied{}>("a tied weight");
  compare<two_repeats{}>("two repeats");
  if (failures == 0) std::puts("all forms hold");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
