// Compute copies that the update writes, or that the ranks gather, in two processes. Started by mpirun; the exit code
// tells.

#include "casts_in_every_run.hpp"

#include <constrain/constrain.hpp>

#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ct = constrain;

namespace {

using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 46, .vocabulary = 61, .context = 16}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

/// The losses of steps and evaluations, and in between the host changes parameters. With ZeRO, rank 1 holds no element
/// of position.weight, but must take part when the ranks gather its copy.
template <class... policies> std::vector<double> losses() {
  using trainer = ct::trainer<task, ct::precision::bf16, policies...>;
  trainer t({.learning_rate = 1e-2f}, {.deadline = 60});
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens)), labels(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto const k = i * 5 + static_cast<std::size_t>(t.rank() % t.data_ranks());
    inputs[i] = static_cast<std::int32_t>(k % 61), labels[i] = static_cast<std::int32_t>((k + 5) % 61);
  }
  std::vector<std::int32_t> const text(32, 7);
  std::vector<double> all;
  auto const add = [&] {
    all.push_back(t.evaluate(text, text).loss);
    all.push_back(t.step(t.batch(inputs, labels)).loss);
    all.push_back(t.evaluate(text, text).loss);
  };
  add();
  for (std::string_view const changed : {"position.weight", "token.weight"})
    for (auto const& p : t.parameters()) {
      if (p.name != changed) continue;
      std::vector<float> values(static_cast<std::size_t>(p.size()));
      p.copy_to(std::span(values));
      for (auto& x : values) x *= 0.5f;
      p.copy_from(std::span<float const>(values));
      add();
    }
  t.save("constrain-kept-copies");
  add();
  t.load("constrain-kept-copies");
  add();
  return all;
}

int failures = 0;

template <class... policies> void compare(char const* name) {
  using trainer = ct::trainer<task, ct::precision::bf16, policies...>;
  static_assert(trainer::entries::keeps_copies);
  static_assert(
      trainer::entries::evaluate::value.steps_size <
      ct::trainer<task, ct::precision::bf16, policies..., ct::test::casts_in_every_run>::entries::evaluate::value
          .steps_size);
  if (losses<policies...>() == losses<policies..., ct::test::casts_in_every_run>()) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", name);
}

/// A step on one rank and an evaluation on the other throw, even if the step would first gather copies.
template <class... policies> void check_different_calls(char const* name) {
  using trainer = ct::trainer<task, ct::precision::bf16, policies...>;
  trainer t({}, {.deadline = 60});
  std::vector<std::int32_t> const tokens(32, 7);
  std::string said;
  try {
    if (t.rank() == 0) t.step(t.batch(tokens, tokens));
    else t.evaluate(tokens, tokens);
  } catch (ct::error const& e) { said = e.what(); }
  if (said.find("different calls: rank 0 is in step and rank 1 in evaluate") != std::string::npos) return;
  ++failures;
  std::fprintf(stderr, "FAILED: different calls with %s: %s\n", name, said.c_str());
}

} // namespace

int main() {
  check_different_calls<ct::parallel::zero<1, 2>>("zero<1>");
  check_different_calls<ct::parallel::tensor<2>>("tensor<2>");
  compare<ct::parallel::ddp>("ddp");
  compare<ct::parallel::zero<1, 2>, ct::accumulate<2>>("zero<1>");
  compare<ct::parallel::zero<2, 2>, ct::optimizer::adafactor>("zero<2>");
  compare<ct::parallel::zero<3, 2>>("zero<3>");
  compare<ct::parallel::ddp, ct::optimizer::in_backward<ct::optimizer::adamw>>("in_backward");
  compare<ct::parallel::tensor<2>, ct::checkpoint::every<1>>("tensor<2>");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
