// Measures a full AdamW step of GPT-2 124M, its lower bound (composition.hpp), and the time of each op in the step. The
// three measurements alternate in one process. With --alone, it measures only the step, also of other models.

#include "composition.hpp"
#include "cpu_limits.hpp"
#include "models.hpp"
#include "profile.hpp"
#include "step_of_plan.hpp"

#include <constrain/constrain.hpp>
#include <constrain/io/json_writer.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::bench;

namespace {

struct arguments {
  int rounds = 7;
  int tokens = 0; // 0: all lengths
  std::string model = "gpt2";
  std::string precision;
  std::string out;
  bool alone = false;
};

template <class measured, class precision, int tokens> struct configuration {
  using of = measured;
  using task =
      ct::task<of::model, typename of::objective, ct::micro_batch{.sequences = of::sequences, .tokens = tokens}>;
  using trainer = ct::trainer<task, precision, ct::optimizer::adamw>;
  using profiled = step_of_plan<task, precision, ct::optimizer::adamw>;
  using running = repeated_step<of, trainer, tokens>;
  using stored = ct::storage<trainer::entries::compute>;
  static constexpr bool has_composition = std::is_same_v<of, of_gpt2>;
  static constexpr char const* precision_name = std::is_same_v<precision, ct::precision::fp32> ? "fp32" : "bf16";

  static std::string name() {
    return std::string(precision_name) + " " + std::to_string(of::sequences) + "x" + std::to_string(tokens);
  }
};

/// Measures only the median step and the process's peak memory, for comparisons between processes.
template <class configuration> void measure_alone(arguments const& a, std::FILE* out) {
  typename configuration::running r;
  r.run(), r.run();
  std::vector<double> seconds;
  for (int i = 0; i < a.rounds; ++i) seconds.push_back(r.run());
  std::fprintf(out, "%s %s %.6f %lld\n", configuration::of::name().c_str(), configuration::name().c_str(),
               median(seconds), static_cast<long long>(process_peak_bytes()));
}

void write(ct::io::json_writer& json, limits const& most) {
  json.object("limits", ct::io::json_layout::row)
      .member("fma_gflops", most.flops * 1e-9)
      .member("copy_gbytes", most.copy * 1e-9);
  json.member("triad_gbytes", most.triad * 1e-9).member("read_gbytes", most.read * 1e-9);
  json.member("update_gbytes", most.update * 1e-9).end();
}

/// The measurements of all rounds. Times are in seconds.
struct rounds {
  std::vector<double> steps{}, compositions{}, gemms{}, updates{}, ratios{};
  std::vector<std::vector<profile_row>> profiles{};
};

template <class configuration>
void print(rounds const& t, composition<typename configuration::stored> const& c, limits const& most,
           std::int64_t peak) {
  using trainer = typename configuration::trainer;
  auto const [low, high] = std::minmax_element(t.ratios.begin(), t.ratios.end());
  auto const step = median(t.steps);
  std::printf("\n%s: GPT-2 with %lld parameters, AdamW, median of %s\n", configuration::name().c_str(),
              static_cast<long long>(trainer::parameter_count), ct::counted(t.steps.size(), "round").c_str());
  std::printf("  limits: %.1f GFLOP/s fp32; copy %.1f, triad %.1f, read %.1f, update in place %.1f GB/s\n",
              most.flops * 1e-9, most.copy * 1e-9, most.triad * 1e-9, most.read * 1e-9, most.update * 1e-9);
  std::printf("  step          %9.1f ms  (%.1f to %.1f), %.0f tokens/s, %.1f GFLOP/s\n", 1e3 * step,
              1e3 * *std::min_element(t.steps.begin(), t.steps.end()),
              1e3 * *std::max_element(t.steps.begin(), t.steps.end()), trainer::batch_tokens / step,
              trainer::flops / step * 1e-9);
  std::printf("  composition   %9.1f ms  = GEMMs %.1f (%.1f GFLOP/s) + AdamW %.1f\n", 1e3 * median(t.compositions),
              1e3 * median(t.gemms), c.flops() / median(t.gemms) * 1e-9, 1e3 * median(t.updates));
  std::printf("  step / composition, median of the rounds' ratios: %.3f  (%.3f to %.3f)\n", median(t.ratios), *low,
              *high);
  std::printf("  memory: planned %.1f MiB, process %.1f MiB\n", trainer::memory.peak.mebibytes(),
              ct::bytes(peak).mebibytes());
  std::printf("  best providers:\n");
  for (auto const& choice : c.choices()) {
    std::printf("    %-16s %6lld x %6lld x %6lld  %-24s", choice.name.c_str(), static_cast<long long>(choice.shape.m),
                static_cast<long long>(choice.shape.n), static_cast<long long>(choice.shape.k), choice.best.c_str());
    for (auto const& [name, seconds] : choice.tried) std::printf(" %s %.2f", name.c_str(), 1e3 * seconds);
    std::printf(" ms\n");
  }
}

template <class configuration>
std::string json_of(rounds const& t, composition<typename configuration::stored> const& c, limits const& most,
                    std::int64_t peak, std::vector<profile_row> const& rows) {
  using trainer = typename configuration::trainer;
  auto const [low, high] = std::minmax_element(t.ratios.begin(), t.ratios.end());
  auto const step = median(t.steps);
  ct::io::json_writer json;
  json.object().member("name", configuration::name()).member("rounds", static_cast<int>(t.steps.size()));
  write(json, most);
  json.member("step_seconds", step).member("composition_seconds", median(t.compositions));
  json.member("products_seconds", median(t.gemms)).member("adamw_seconds", median(t.updates));
  json.member("step_to_composition", median(t.ratios)).member("least_ratio", *low).member("largest_ratio", *high);
  json.member("tokens_per_second", trainer::batch_tokens / step);
  json.member("planned_peak_bytes", trainer::memory.peak.count()).member("process_peak_bytes", peak);
  json.array("providers");
  for (auto const& choice : c.choices()) {
    json.object(ct::io::json_layout::row)
        .member("product", choice.name)
        .member("m", choice.shape.m)
        .member("n", choice.shape.n);
    json.member("k", choice.shape.k).member("best", choice.best).object("seconds");
    for (auto const& [name, seconds] : choice.tried) json.member(name, seconds);
    json.end().end();
  }
  json.end();
  write(json, rows);
  json.end();
  return json.text();
}

template <class configuration> void measure(arguments const& a, std::FILE* out) {
  using trainer = typename configuration::trainer;
  typename configuration::running r;
  r.run(), r.run();
  auto const peak = process_peak_bytes(); // before anything else allocates
  auto const most = measure_limits();
  composition<typename configuration::stored> c(configuration::of::model, trainer::batch_tokens,
                                                trainer::parameter_count);
  c.run();
  typename configuration::profiled profiled;
  auto const plan = measured_plan_of<typename configuration::profiled::entry>();
  profiled.run(), profiled.run();

  rounds all;
  for (int i = 0; i < a.rounds; ++i) {
    all.steps.push_back(r.run());
    auto const [gemm, update] = c.run();
    all.gemms.push_back(gemm), all.updates.push_back(update);
    all.compositions.push_back(gemm + update);
    all.ratios.push_back(all.steps.back() / all.compositions.back());
    profile p(plan, most);
    profiled.run(p);
    all.profiles.push_back(p.rows());
  }
  print<configuration>(all, c, most, peak);
  auto const rows = median_of(all.profiles);
  std::printf("  time by op; share: least time at the limits / time; above 1 if the caches hold the data\n");
  print(rows, stdout);
  std::fprintf(out, "%s", json_of<configuration>(all, c, most, peak, rows).c_str());
}

/// Measures one configuration in a separate process, so that its peak memory is known. Returns what the process writes
/// to its end of the pipe.
template <class configuration> std::string measure_apart(arguments const& a) {
  int ends[2];
  if (pipe(ends) != 0) throw ct::error("training_step: a pipe cannot be created; close other files");
  std::fflush(nullptr);
  auto const child = fork();
  if (child < 0) throw ct::error("training_step: a process cannot be started; end other processes");
  if (child == 0) {
    close(ends[0]);
    auto* const out = fdopen(ends[1], "w");
    int status = 0;
    try {
      if constexpr (configuration::has_composition) {
        a.alone ? measure_alone<configuration>(a, out) : measure<configuration>(a, out);
      } else {
        if (!a.alone) throw ct::error("training_step: only gpt2 is measured without --alone; give --alone");
        measure_alone<configuration>(a, out);
      }
    } catch (std::exception const& e) {
      std::fprintf(stderr, "%s\n", e.what());
      status = 1;
    }
    std::fflush(nullptr);
    _exit(status);
  }
  close(ends[1]);
  std::string text;
  char block[4096];
  for (ssize_t n; (n = read(ends[0], block, sizeof block)) > 0;) text.append(block, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0)
    throw ct::error("training_step: the measurement of " + configuration::name() + " failed; see the output above");
  return text;
}

/// Measures the model `of` with each of these sequence lengths, in fp32 and in bf16. Skips the models, lengths and
/// precisions that the arguments do not select.
template <class of, int... lengths> void measure_if_wanted(arguments const& a, std::vector<std::string>& results) {
  if (a.model != of::name()) return;
  auto const in = [&]<class precision>(precision) {
    auto const with = [&]<int tokens>(std::integral_constant<int, tokens>) {
      using one = configuration<of, precision, tokens>;
      if (a.tokens != 0 && a.tokens != tokens) return;
      if (a.precision.empty() || a.precision == one::precision_name) results.push_back(measure_apart<one>(a));
    };
    (with(std::integral_constant<int, lengths>{}), ...);
  };
  in(ct::precision::fp32{});
  in(ct::precision::bf16{});
}

arguments read_arguments(int count, char** values) {
  std::string const options =
      "write --rounds N, --tokens N, --precision fp32|bf16, --out DIRECTORY, --alone or, with --alone, --model "
      "gpt2|bert_large|llama_1b|llama_1b_2_layers";
  arguments a;
  for (int i = 1; i < count; ++i) {
    std::string const name = values[i];
    if (name == "--alone") {
      a.alone = true;
      continue;
    }
    if (i + 1 == count) throw ct::error("training_step: " + name + " has no value; " + options);
    std::string const value = values[++i];
    if (name == "--rounds") a.rounds = std::max(1, std::atoi(value.c_str()));
    else if (name == "--tokens") a.tokens = std::atoi(value.c_str());
    else if (name == "--precision") a.precision = value;
    else if (name == "--model") a.model = value;
    else if (name == "--out") a.out = value;
    else throw ct::error("training_step: there is no option " + name + "; " + options);
  }
  return a;
}

} // namespace

int main(int count, char** values) try {
  if (count == 2 && std::string(values[1]) == "--machine") return std::puts(machine_name().c_str()) < 0;
  auto const a = read_arguments(count, values);
  std::vector<std::string> results;
  measure_if_wanted<of_gpt2, 64, 256>(a, results);
  measure_if_wanted<of_bert_large, 512>(a, results);
  measure_if_wanted<of_llama_1b<>, 512>(a, results);
  measure_if_wanted<of_llama_1b<2>, 512>(a, results);
  if (results.empty())
    throw ct::error("training_step: no configuration has the model, tokens and precision of the options; write --model "
                    "gpt2 with --tokens 64 or 256, or bert_large, llama_1b or llama_1b_2_layers with --tokens 512, and "
                    "--precision fp32 or bf16");
  if (a.alone) {
    for (auto const& text : results) std::printf("%s", text.c_str());
    return 0;
  }
  if (a.out.empty()) return 0;
  auto const path = a.out + "/training_step." + machine_name() + ".json";
  auto* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr) throw ct::error("training_step: " + path + " cannot be written; give a writable directory");
  std::fprintf(file, "{\n\"machine\": \"%s\", \"compiler\": \"%s\", \"gemm\": \"%s\",\n\"configurations\": [\n",
               machine_name().c_str(), __VERSION__, ct::gemm_provider());
  for (std::size_t i = 0; i < results.size(); ++i)
    std::fprintf(file, "%s%s\n", results[i].c_str(), i + 1 < results.size() ? "," : "");
  std::fprintf(file, "]\n}\n");
  std::fclose(file);
  std::printf("\nwritten: %s\n", path.c_str());
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
