// Optimizers that work on whole tensors, in two processes: with all tensors on each rank, and with each tensor in two
// shards. Started by mpirun; the exit code tells.

#include "op/own_rule.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

int failures = 0;

void check(bool holds, std::string const& what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 46, .vocabulary = 61, .context = 16}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

template <class trainer> void step(trainer& t, int number) {
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens)), labels(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto const k = i * 5 + static_cast<std::size_t>(number * 2 + t.rank());
    inputs[i] = static_cast<std::int32_t>(k % 61), labels[i] = static_cast<std::int32_t>((k + 5) % 61);
  }
  t.step(t.batch(inputs, labels));
}

/// Weights and states after four steps, the last two of them in a trainer that resumed.
template <class first, class second> std::string bytes_of(std::string const& directory) {
  {
    first t;
    step(t, 0), step(t, 1);
    t.save(directory + "/half");
  }
  second t;
  t.load(directory + "/half");
  step(t, 2), step(t, 3);
  t.save(directory + "/end");
  return read_file(directory + "/end/model.safetensors") + read_file(directory + "/end/optimizer.safetensors");
}

template <class optimizer> void compare(char const* name) {
  using whole = ct::trainer<task, optimizer, ct::parallel::ddp>;
  using shards = ct::trainer<task, optimizer, ct::parallel::zero<3, 2>>;
  auto const& bytes = [&]<class first, class second>() {
    std::string const directory = std::string("constrain-optimizers-") + name;
    return bytes_of<first, second>(directory);
  };
  auto const expected = bytes.template operator()<whole, whole>();
  check(!expected.empty(), std::string(name) + " saved nothing");
  check(bytes.template operator()<shards, shards>() == expected,
        std::string(name) + ": shards and full tensors differ");
  check(bytes.template operator()<whole, shards>() == expected,
        std::string(name) + ": shards do not resume full tensors");
  check(bytes.template operator()<shards, whole>() == expected,
        std::string(name) + ": full tensors do not resume shards");
}

} // namespace

int main() {
  compare<normalized_momentum>("own_rule");
  compare<ct::optimizer::averaged<ct::optimizer::adamw>>("averaged");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
