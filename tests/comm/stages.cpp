// Training with all tensors on each rank, and with ZeRO of the stage CONSTRAIN_STAGE (0: parallel::ddp), against one
// process on the same global batch. Started with 2 ranks, one group, and with 4, two groups of 2 and one of 4.

#include <constrain/constrain.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <vector>

namespace ct = constrain;

namespace {

int failures = 0;

void check(bool holds, std::string const& what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

// Matrices of several chunks, the last one short; no tensor whose gradient is zero by mathematics.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 61, .width = 46});
    x = ct::repeat("block", 3, x, [](ct::value x) {
      return x + ct::linear("down", ct::gelu(ct::linear("up", ct::layer_norm("norm", x), 71)), 46);
    });
    return ct::linear("head", x, 61);
  }
};
constexpr int sequences = 12; // in the batch of one process
constexpr int tokens = 8;     // in a sequence
constexpr int steps = 10;
template <int count>
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = count, .tokens = tokens}>;

/// Half of the batch, in as many micro-batches. With 4 ranks, each sequence is in their batch twice: ranks 0 and 1 have
/// the first half of the batch of one process, ranks 2 and 3 the second, so that the average is the same.
template <class precision, int micro_batches, int shards>
using trainer_on = ct::trainer<
    task<sequences / 2 / micro_batches>, precision, ct::optimizer::sgd, ct::accumulate<micro_batches>,
    std::conditional_t<CONSTRAIN_STAGE == 0, ct::parallel::ddp, ct::parallel::zero<CONSTRAIN_STAGE, shards>>>;

struct outcome {
  std::vector<double> losses;
  std::vector<std::vector<double>> gradients, weights; // of the first step; after the last
};

std::vector<double> values_of(ct::tensor_view const& t) {
  std::vector<double> values(static_cast<std::size_t>(t.size()));
  t.copy_to(std::span<double>(values));
  return values;
}

template <class trainer> outcome train() {
  trainer t{{.learning_rate = 0.1f}, {.seed = 3}};
  outcome o;
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens)), labels(inputs);
  for (int number = 0; number < steps; ++number) {
    int const part = t.ranks() == 4 ? t.rank() / 2 : t.rank();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      auto const k = i + inputs.size() * static_cast<std::size_t>(part) + static_cast<std::size_t>(number * 96);
      inputs[i] = static_cast<std::int32_t>(k * k % 61), labels[i] = static_cast<std::int32_t>((k * k + 7 * k) % 61);
    }
    o.losses.push_back(t.step(t.batch(inputs, labels)).loss);
    if (number == 0)
      for (auto const& p : t.parameters()) o.gradients.push_back(values_of(t.gradient(p.name)));
  }
  for (auto const& p : t.parameters()) o.weights.push_back(values_of(p));
  return o;
}

/// The largest norm of a tensor's difference, relative to the tensor's norm; infinite if one is no number.
double difference(std::vector<std::vector<double>> const& a, std::vector<std::vector<double>> const& b) {
  double worst = a.size() == b.size() && !a.empty() ? 0 : HUGE_VAL;
  for (std::size_t t = 0; t < a.size() && worst < HUGE_VAL; ++t) {
    double sum = 0, size = 0;
    for (std::size_t i = 0; i < a[t].size(); ++i) {
      sum += (a[t][i] - b[t][i]) * (a[t][i] - b[t][i]);
      size += a[t][i] * a[t][i];
    }
    double const apart = std::sqrt(sum / size);
    worst = std::isfinite(apart) ? std::max(worst, apart) : HUGE_VAL;
  }
  return worst;
}

template <class trainer> void compare(outcome const& one, double within) {
  auto const o = train<trainer>();
  auto const gradients = difference(one.gradients, o.gradients), weights = difference(one.weights, o.weights);
  auto const name = trainer::policy_set::name();
  std::printf("%s: gradients %.1e, weights %.1e from one process\n", name.c_str(), gradients, weights);
  check(gradients <= within, name + ": gradients are not one process's");
  check(weights <= within, name + ": weights are not one process's");
  for (int i = 0; i < steps; ++i) {
    auto const at = static_cast<std::size_t>(i);
    check(std::abs(o.losses[at] - one.losses[at]) <= within * one.losses[at], name + ": losses are not one process's");
  }
}

template <class precision> void compare_all(int ranks, double within) {
  auto const one = train<ct::trainer<task<sequences>, precision, ct::optimizer::sgd>>();
  check(one.losses.back() < one.losses.front(), "ten steps change nothing");
  compare<trainer_on<precision, 1, 2>>(one, within);
  compare<trainer_on<precision, 3, 2>>(one, within);
  if (CONSTRAIN_STAGE > 0 && ranks == 4) compare<trainer_on<precision, 3, 4>>(one, within);
}

} // namespace

int main() {
  int const ranks = trainer_on<ct::precision::fp32, 1, 2>().ranks();
  check(ranks == 2 || ranks == 4, "2 or 4 ranks are needed");
  compare_all<ct::precision::fp32>(ranks, 5e-6);
  compare_all<ct::precision::fp64>(ranks, 1e-13);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
