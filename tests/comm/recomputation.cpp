// Recomputation in the backward pass changes no bit in two processes: checkpoint::keep and checkpoint::budget with ZeRO
// and tensor parallelism. Started by mpirun; the exit code tells.

#include <constrain/constrain.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace ct = constrain;
using ct::checkpoint::keep;

namespace {

int failures = 0;

void check(bool holds, std::string const& what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 16, .vocabulary = 61, .context = 16}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
template <class... policies> constexpr ct::bytes peak = ct::entries<task, ct::policies<policies...>>::memory.peak;

/// The weights after three steps with dropout.
template <class... policies> std::vector<float> trained() {
  ct::trainer<task, policies...> t({.learning_rate = 1e-2f}, {.dropout = 0.1});
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(t.batch_tokens)), labels(inputs);
  for (std::size_t step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      auto const k = i * 5 + step * 2 + static_cast<std::size_t>(t.rank() % t.data_ranks());
      inputs[i] = static_cast<std::int32_t>(k % 61), labels[i] = static_cast<std::int32_t>((k + 5) % 61);
    }
    t.step(t.batch(inputs, labels));
  }
  std::vector<float> all;
  for (auto const& p : t.parameters()) {
    std::vector<float> x(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(x));
    all.insert(all.end(), x.begin(), x.end());
  }
  return all;
}

template <class... policies> void compare(std::string const& name) {
  constexpr auto middle = (peak<policies...> + peak<keep<>, policies...>) / 2;
  static_assert(peak<keep<>, policies...> < middle && middle < peak<policies...>);
  auto const expected = trained<policies...>();
  check(trained<policies..., keep<>>() == expected, name + ", keep<>");
  check(trained<policies..., keep<ct::op::attention, ct::op::embedding>>() == expected, name + ", keep");
  check(trained<policies..., ct::checkpoint::budget<middle>>() == expected, name + ", budget");
}

} // namespace

int main() {
  compare<ct::parallel::zero<3, 2>, ct::precision::bf16>("zero<3>, bf16");
  compare<ct::parallel::zero<2, 2>, ct::accumulate<2>>("zero<2>, two micro-batches");
  compare<ct::parallel::tensor<2>>("tensor<2>");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
