// Optimizers with states of other shapes and types than the weights, and AdamW under every parallelism: one number of
// ranks saves a run, another number resumes it. Started by world_sizes.cmake with mpirun: `world_sizes save DIRECTORY`
// trains and saves, `world_sizes resume DIRECTORY` loads, saves again, trains and compares. The exit code tells.

#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
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

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 96, .context = 16}, ct::causal_lm,
                      ct::micro_batch{.sequences = 1}>;
constexpr int sequences = 4; // in a batch, over all ranks and micro-batches

template <class optimizer, int ranks>
using trainer_on = ct::trainer<task, optimizer, ct::precision::fp64, ct::accumulate<sequences / ranks>,
                               std::conditional_t<ranks == 1, ct::parallel::none, ct::parallel::zero<3, ranks>>>;

/// AdamW on 1, 2, 3 or 4 ranks: batches of 12 sequences.
template <class parallel, int ranks>
using adamw_on = ct::trainer<task, ct::precision::fp64, ct::accumulate<12 / ranks>, parallel>;

/// One step on batch `number`, which is the same for every number of ranks; returns its loss.
template <class trainer> double step(trainer& t, int number) {
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens)), labels(inputs);
  auto const first = inputs.size() * static_cast<std::size_t>(number * t.ranks() + t.rank());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto const k = first + i;
    inputs[i] = static_cast<std::int32_t>(k * k % 96), labels[i] = static_cast<std::int32_t>((k * k + 5 * k) % 96);
  }
  return t.step(t.batch(inputs, labels)).loss;
}

std::string bytes_of(std::string const& directory) {
  return read_file(directory + "/model.safetensors") + read_file(directory + "/optimizer.safetensors");
}

/// All weights of a saved run, in fp64. The file begins with the length of its header.
std::vector<double> weights_of(std::string const& directory) {
  auto const file = read_file(directory + "/model.safetensors");
  std::uint64_t header = 0;
  if (file.size() < sizeof header) return {};
  std::memcpy(&header, file.data(), sizeof header);
  auto const begin = sizeof header + header;
  std::vector<double> weights((file.size() - begin) / sizeof(double));
  std::memcpy(weights.data(), file.data() + begin, weights.size() * sizeof(double));
  return weights;
}

/// Two steps, a save, two more steps: the losses of these and all weights at the end.
template <class trainer> void save(std::string const& directory) {
  trainer t;
  step(t, 0), step(t, 1);
  t.save(directory + "/half");
  double const losses[] = {step(t, 2), step(t, 3)};
  t.save(directory + "/end");
  if (t.rank() == 0) write_file(directory + "/losses", {reinterpret_cast<char const*>(losses), sizeof losses});
}

/// Loads the saved half, saves it again, and continues to the same end.
template <class trainer> void resume(std::string const& directory, std::string const& name) {
  trainer t;
  t.load(directory + "/half");
  t.save(directory + "/again");
  auto const half = bytes_of(directory + "/half");
  check(!half.empty() && bytes_of(directory + "/again") == half, name + ": the states were not loaded bit for bit");

  double losses[2];
  auto const saved = read_file(directory + "/losses");
  if (saved.size() != sizeof losses) return check(false, name + ": the losses were not saved");
  std::memcpy(losses, saved.data(), sizeof losses);
  for (int i = 0; i < 2; ++i) {
    double const loss = step(t, 2 + i);
    check(std::abs(loss - losses[i]) <= 1e-12 * losses[i],
          ct::concat({name, ": the loss of step ", 3 + i, " differs"}));
  }
  t.save(directory + "/end_on_other_ranks");
  auto const expected = weights_of(directory + "/end"), got = weights_of(directory + "/end_on_other_ranks");
  if (expected.empty() || expected.size() != got.size()) return check(false, name + ": the weights were not saved");
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    difference += std::pow(got[i] - expected[i], 2), norm += std::pow(expected[i], 2);
  check(std::sqrt(difference) <= 1e-11 * std::sqrt(norm), name + ": the weights differ after two more steps");
}

template <class optimizer> void run(int ranks, bool saves, std::string const& directory) {
  auto const name = ct::policy_name<optimizer>();
  auto const with = [&]<class trainer>() {
    if (saves) save<trainer>(directory + "/" + name);
    else resume<trainer>(directory + "/" + name, name);
  };
  if (ranks == 1) with.template operator()<trainer_on<optimizer, 1>>();
  if (ranks == 2) with.template operator()<trainer_on<optimizer, 2>>();
  if (ranks == 4) with.template operator()<trainer_on<optimizer, 4>>();
}

/// Two kinds of parallelism on this number of ranks, each of which resumes what each of another number has saved.
template <int ranks, class... parallel> void run_adamw(bool saves, std::string const& directory) {
  auto const with = [&]<class trainer>(int own) {
    if (saves) return save<trainer>(directory + "/adamw_" + std::to_string(own));
    for (int saved : {0, 1})
      resume<trainer>(directory + "/adamw_" + std::to_string(saved), trainer::policy_set::name());
  };
  int own = 0;
  (with.template operator()<adamw_on<parallel, ranks>>(own++), ...);
}

} // namespace

int main(int count, char** words) {
  if (count != 3) return EXIT_FAILURE;
  bool const saves = std::string(words[1]) == "save";
  std::string const directory = words[2];
  int const ranks = ct::trainer<task, ct::parallel::ddp>().ranks();
  check(ranks >= 1 && ranks <= 4, "1, 2, 3 or 4 ranks are needed");
  using ct::parallel::none, ct::parallel::ddp, ct::parallel::zero;
  if (ranks == 1) run_adamw<1, none, ddp>(saves, directory);
  if (ranks == 2) run_adamw<2, zero<1, 2>, zero<3, 2>>(saves, directory);
  if (ranks == 3) run_adamw<3, zero<2, 3>, ddp>(saves, directory);
  if (ranks == 4) run_adamw<4, zero<1, 4>, zero<2, 2>>(saves, directory);
  if (ranks == 3 || std::string(directory).ends_with("/3")) return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  // These are saved and resumed on 1, 2 and 4 ranks.
  run<ct::optimizer::adafactor_with_momentum>(ranks, saves, directory);
  run<ct::optimizer::muon<ct::optimizer::adamw>>(ranks, saves, directory);
  run<ct::optimizer::averaged<ct::optimizer::adamw_8bit>>(ranks, saves, directory);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
