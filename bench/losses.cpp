// Trains the main job (examples/main_job.hpp) with several 16-bit precisions and with 16-bit and 8-bit optimizer
// states. Trains each from several seeds, and compares its mean validation loss with the mean of fp32 AdamW. Prints a
// table and, if a directory is given, writes JSON.

#include "../examples/main_job.hpp"
#include "measure.hpp"

#include <constrain/io/json_writer.hpp>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::bench;

namespace {

/// A set of policies and its losses.
struct row {
  char const* key;
  double bound; // largest allowed ratio of the mean loss to the mean loss of fp32 AdamW
  double (*train)(ct::data::corpus const& training, ct::data::corpus const& validation, std::int64_t steps,
                  std::uint64_t seed);
  std::vector<double> losses{}; // validation losses, one per seed

  double mean() const {
    double sum = 0;
    for (double const loss : losses) sum += loss;
    return sum / static_cast<double>(losses.size());
  }
};

template <class... policies>
double train(ct::data::corpus const& training, ct::data::corpus const& validation, std::int64_t steps,
             std::uint64_t seed) {
  using trainer = ct::trainer<main_job::task, ct::accumulate<2>, policies...>;
  auto run = main_job::run(steps);
  run.seed = seed;
  constexpr auto h = main_job::hyperparameters;
  trainer t{{.learning_rate = h.learning_rate, .beta2 = h.beta2, .weight_decay = h.weight_decay}, run};
  for (auto const& batch : t.batches(training)) {
    if (t.steps() == steps) break;
    t.step(batch);
  }
  return t.evaluate(validation).loss;
}

/// The share of the weights whose optimizer states are stored in 8 bits.
template <class... policies> constexpr double share_in_8_bits() {
  using trainer = ct::trainer<main_job::task, ct::accumulate<2>, policies...>;
  std::int64_t bytes = 0;
  for (auto const& s : trainer::entries::parameters.states)
    if (s.type == ct::dtype::u8) bytes += s.elements();
  return static_cast<double>(bytes) / 2 / static_cast<double>(trainer::parameter_count);
}
static_assert(share_in_8_bits<ct::optimizer::adamw_8bit>() >= 0.9);

std::vector<row> all_rows() {
  using namespace ct::optimizer;
  namespace precision = ct::precision;
  return {{"fp32", 1, train<>},
          {"adamw_8bit", 1.02, train<adamw_8bit>},
          {"states_bf16", 1.02, train<states_in<ct::dtype::bf16, adamw>>},
          {"pure_bf16", 1.03, train<precision::pure_bf16>},
          {"fp16", 1.01, train<precision::fp16>},
          {"bf16", 1.01, train<precision::bf16>}};
}

void print(std::vector<row> const& rows) {
  std::printf("%-12s %8s %8s %8s  %s\n", "strategy", "mean", "ratio", "bound", "by seed");
  for (auto const& r : rows) {
    std::printf("%-12s %8.4f %8.4f %8.2f ", r.key, r.mean(), r.mean() / rows[0].mean(), r.bound);
    for (double const loss : r.losses) std::printf(" %.4f", loss);
    std::printf("%s\n", r.mean() <= r.bound * rows[0].mean() ? "" : "  above the bound");
  }
}

std::string json(std::vector<row> const& rows, std::int64_t steps) {
  ct::io::json_writer json;
  json.object().member("machine", machine_name()).member("gemm", ct::gemm_provider()).member("steps", steps);
  json.array("rows");
  for (auto const& r : rows) {
    json.object(ct::io::json_layout::row).member("key", r.key).member("mean_loss", r.mean());
    json.member("ratio_to_fp32", r.mean() / rows[0].mean()).member("bound", r.bound).array("losses");
    for (double const loss : r.losses) json.element(loss);
    json.end().end();
  }
  json.end().end();
  return json.text() + "\n";
}

} // namespace

/// bench.losses [STEPS [SEEDS [DIRECTORY]]]: 200 steps and 3 seeds by default; the JSON goes to DIRECTORY, if given.
int main(int count, char** values) try {
  std::int64_t const steps = count > 1 ? std::atoll(values[1]) : 200, seeds = count > 2 ? std::atoll(values[2]) : 3;
  if (steps < 20 || seeds < 1) throw ct::error("losses: write at least 20 steps and at least 1 seed");
  std::optional<ct::io::atomic_file> file; // opened now, so that an error does not come after the training
  if (count > 3) file.emplace(std::string(values[3]) + "/losses." + machine_name() + ".json");
  auto const [training, validation] = main_job::split(ct::data::text(CONSTRAIN_BENCH_TEXT), 32'768);
  auto rows = all_rows();
  for (std::int64_t seed = 1; seed <= seeds; ++seed)
    for (auto& r : rows) {
      r.losses.push_back(r.train(training, validation, steps, static_cast<std::uint64_t>(seed)));
      std::fprintf(stderr, "seed %lld: %s %.4f\n", static_cast<long long>(seed), r.key, r.losses.back());
    }
  print(rows);
  if (!file) return 0;
  auto const text = json(rows, steps);
  file->out().write(std::as_bytes(std::span(text)));
  file->commit();
} catch (ct::error const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
