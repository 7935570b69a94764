// Programs of every form under zero<3, 2>: the bits of ddp, nothing stale in checked mode. Started with 2 processes.

#include <constrain/constrain.hpp>

#include <cstdio>
#include <cstdlib>
#include <random>
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
}

} // namespace

int main() {
  compare<two_layers_in_a_block{}>("two layers in a block");
  compare<nested{}>("nested repeats");
  compare<tied{}>("a tied weight");
  compare<two_repeats{}>("two repeats");
  if (failures == 0) std::puts("all forms hold");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
