// Ranks and micro-batches with different numbers of valid labels: with fusion::all, each rank's loop over rows has its
// own number of iterations, and the collectives are outside of it. Started by mpirun; the exit code tells.

#include <constrain/constrain.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace ct = constrain;

namespace {

// 36 rows a micro-batch: two chunks of 16, and 4 rows.
using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 8, .vocabulary = 23, .context = 12}, ct::causal_lm,
                      ct::micro_batch{.sequences = 3}>;

struct result {
  double loss = 0, evaluated = 0, accuracy = 0;
  std::vector<double> gradients;
};

/// One step in which rank r has valid[r][m] valid labels in micro-batch m, and an evaluation.
template <class... list> result run(std::size_t const (&valid)[2][2]) {
  using trainer = ct::trainer<task, ct::precision::fp64, ct::optimizer::sgd, ct::accumulate<2>, list...>;
  trainer t({}, {.checked = true});
  auto const rank = static_cast<std::size_t>(t.rank() % 2);
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::vector<std::int32_t> inputs, labels;
  for (auto const count : valid[rank])
    for (std::size_t i = 0; i < 36; ++i) {
      inputs.push_back(static_cast<std::int32_t>(random() % 23));
      auto const label = static_cast<std::int32_t>(random() % 23);
      labels.push_back(i * 7 % 36 < count ? label : ct::ignored_label);
    }
  result r;
  r.loss = t.step(t.batch(inputs, labels)).loss;
  for (auto const& p : t.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(p.size()));
    t.gradient(p.name).copy_to(std::span<double>(values));
    r.gradients.insert(r.gradients.end(), values.begin(), values.end());
  }
  labels.assign(labels.size(), 5); // every rank evaluates its samples; rank 1 has no valid label in micro-batch 0
  for (std::size_t i = 0; i < 50 && rank == 1; ++i) labels[i] = ct::ignored_label;
  std::fill(inputs.begin(), inputs.end(), 3);
  auto const e = t.evaluate(inputs, labels);
  r.evaluated = e.loss, r.accuracy = e.accuracy;
  return r;
}

template <class... list> bool computes_the_same(std::size_t const (&valid)[2][2]) {
  auto const fused = run<ct::fusion::all, list...>(valid), separate = run<ct::fusion::none, list...>(valid);
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < fused.gradients.size(); ++i) {
    apart += (fused.gradients[i] - separate.gradients[i]) * (fused.gradients[i] - separate.gradients[i]);
    size += separate.gradients[i] * separate.gradients[i];
  }
  bool const same = std::abs(fused.loss - separate.loss) <= 1e-13 * separate.loss && std::sqrt(apart / size) <= 1e-13 &&
                    std::abs(fused.evaluated - separate.evaluated) <= 1e-13 * separate.evaluated &&
                    fused.accuracy == separate.accuracy;
  if (!same)
    std::fprintf(stderr, "FAILED: %s: losses %.17g and %.17g, gradients %.1e apart\n",
                 ct::policies<list...>::name().c_str(), fused.loss, separate.loss, std::sqrt(apart / size));
  return same;
}

constexpr std::size_t cases[][2][2] = {
    {{36, 36}, {36, 36}}, {{36, 36}, {1, 17}}, {{0, 33}, {20, 0}}, {{0, 0}, {12, 36}}};

} // namespace

int main() {
  bool same = true;
  for (auto const& valid : cases) {
    same = computes_the_same<ct::parallel::ddp>(valid) && same;
    same = computes_the_same<ct::parallel::zero<1, 2>>(valid) && same;
    same = computes_the_same<ct::parallel::zero<2, 2>>(valid) && same;
    same = computes_the_same<ct::parallel::zero<3, 2>>(valid) && same;
    same = computes_the_same<ct::parallel::zero<3, 2>, ct::checkpoint::every<1>>(valid) && same;
  }
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
