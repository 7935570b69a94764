// Measures a CUDA device: its limits, the time of every op in a training step of GPT-2 124M or 774M against them, the
// step as a CUDA graph, and planned memory against the memory that the driver reports.

#include <constrain/constrain.hpp>

#include "../step_of_plan.hpp"
#include "device_limits.cuh"
#include "gemm_algorithms.cuh"
#include "machine.cuh"
#include "timed_calls.cuh"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::bench;

#if !defined(CONSTRAIN_CUDA_ARCHITECTURE)
#define CONSTRAIN_CUDA_ARCHITECTURE 90
#endif
// Sequences of 1024 tokens in a step; 0: a tiny model. A program has one size, because nvcc needs GiBs of memory for
// each.
#if !defined(CONSTRAIN_BENCH_SEQUENCES)
#define CONSTRAIN_BENCH_SEQUENCES 0
#endif
#if !defined(CONSTRAIN_BENCH_LARGE)
#define CONSTRAIN_BENCH_LARGE 0 // 1: GPT-2 774M instead of 124M
#endif

namespace {

using architecture = ct::sm<CONSTRAIN_CUDA_ARCHITECTURE>;
using device = ct::cuda<architecture>;

struct arguments {
  int rounds = 0;
  std::string part; // empty: all
  std::string out;
};

template <ct::gpt2 model_, int sequences> struct configuration {
  static constexpr ct::gpt2 model = model_;
  using task = ct::task<model_, ct::causal_lm, ct::micro_batch{.sequences = sequences}>;
  using policy = ct::device::cuda<architecture>;
  using trainer = ct::trainer<task, ct::precision::bf16, ct::optimizer::adamw, policy, ct::launch::graph>;
  using plan = step_of_plan<task, ct::precision::bf16, ct::optimizer::adamw, policy>;

  static std::string name() { return "bf16 " + std::to_string(sequences) + "x" + std::to_string(model_.context); }
  /// The FLOPs of a step without recomputation, as MFU counts them: for each token, 6 per parameter, and 6 x layers x
  /// width x context for causal attention.
  static constexpr double model_flops() {
    auto const attention = 6.0 * model_.layers * model_.width * model_.context;
    return (6.0 * static_cast<double>(trainer::parameter_count) + attention) *
           static_cast<double>(trainer::batch_tokens);
  }
};
constexpr bool tiny = CONSTRAIN_BENCH_SEQUENCES == 0;
constexpr ct::gpt2 tiny_model{.layers = 2, .heads = 2, .width = 16, .vocabulary = 67, .context = 11};
constexpr bool large = CONSTRAIN_BENCH_LARGE != 0;
constexpr ct::gpt2 large_model{.layers = 36, .heads = 20, .width = 1280};
constexpr ct::gpt2 measured_model = tiny ? tiny_model : large ? large_model : ct::gpt2{};
using measured_configuration = configuration<measured_model, tiny ? 2 : CONSTRAIN_BENCH_SEQUENCES>;

void mark() {
  if (!measured) std::printf("  NOT MEASURED: the kernels ran on the host; times and rates say nothing\n");
}

/// The times of a step as a graph, its last loss, and the device memory that the trainer and its first steps took.
struct graph_step {
  double seconds = 0, least = 0, most = 0, loss = 0;
  std::int64_t driver_bytes = 0;
};

template <class configuration> graph_step measure_graph(int rounds) {
  using trainer = typename configuration::trainer;
  auto const before = memory_now();
  trainer t{{.learning_rate = 1e-5f, .weight_decay = 0.1f}, {.seed = 1}};
  auto const inputs = random_integers(trainer::batch_tokens, configuration::model.vocabulary, 2);
  auto const labels = random_integers(trainer::batch_tokens, configuration::model.vocabulary, 3);
  auto const batch = t.batch(inputs, labels);
  graph_step result;
  for (int i = 0; i < 3; ++i) result.loss = t.step(batch).loss; // the second step captures the graph
  result.driver_bytes = before.free - memory_now().free;
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) seconds.push_back(seconds_of([&] { result.loss = t.step(batch).loss; }));
  if (!std::isfinite(result.loss))
    throw ct::error("cuda.training_step: the loss is not finite; run tests/run --cuda first");
  result.seconds = median(seconds);
  result.least = *std::min_element(seconds.begin(), seconds.end());
  result.most = *std::max_element(seconds.begin(), seconds.end());
  return result;
}

/// A step whose kernels are started one by one: its median time, and the times of its calls, by kind and by node of the
/// plan. `graph_nodes`: the number of nodes of a CUDA graph of the step.
struct eager_step {
  double seconds = 0;
  std::size_t graph_nodes = 0;
  std::vector<profile_row> kinds, nodes;
};

/// Captures the kernels of `p` on `stream` in a CUDA graph, and returns the graph's number of nodes. `stream`: the
/// stream of `p`. `p` must have run before.
template <class plan> std::size_t graph_nodes(plan& p, cudaStream_t stream) {
  using entries = typename plan::entries;
  auto& runner = p.on_device();
  auto* const arena = runner.arena().data();
  auto parameters = p.parameters();
  parameters.context = &runner.context();
  ct::no_hooks none;
  cudaGraph_t graph{};
  std::size_t nodes = 0;
  ct::cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "begin to capture a graph");
  ct::execute(ct::view_of<typename plan::entry, device>(), arena, parameters, none,
              arena + entries::memory.peak.count() - entries::scratch);
  ct::cuda_check(cudaStreamEndCapture(stream, &graph), "capture a graph");
  ct::cuda_check(cudaGraphGetNodes(graph, nullptr, &nodes), "count the nodes of a graph");
  ct::cuda_check(cudaGraphDestroy(graph), "destroy a graph");
  return nodes;
}

template <class configuration> eager_step measure_calls(limits const& most, int rounds) {
  using plan = typename configuration::plan;
  plan p;
  auto const measured_plan = measured_plan_of<typename plan::entry, device>();
  p.run(), p.run();
  auto const stream = p.on_device().context().stream();
  timed_calls hooks(measured_plan, stream);
  std::vector<std::vector<profile_row>> kinds, nodes;
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) {
    call_times times(measured_plan, most);
    hold(stream);
    p.run(hooks);
    seconds.push_back(hooks.finish(times));
    kinds.push_back(times.rows());
    nodes.push_back(times.rows_by_step());
  }
  return {median(seconds), graph_nodes(p, stream), median_of(kinds), median_of(nodes)};
}

/// Prints the times of two of cuBLASLt's algorithms for each GEMM: the first, which the library uses, and the fastest.
void print_algorithms(std::vector<plan_gemm> const& gemms) {
  bool begun = false;
  for (auto const& g : gemms) {
    if (g.algorithms.empty()) continue;
    if (!begun)
      std::printf("  %-40s %9s %9s %7s %6s\n", "algorithms of cuBLASLt", "first us", "best us", "best", "ratio");
    begun = true;
    auto const best = std::min_element(g.algorithms.begin(), g.algorithms.end());
    std::printf("  %-40s %9.1f %9.1f %3d of %d %6.2f\n", g.name.c_str(), 1e6 * g.algorithms[0], 1e6 * *best,
                static_cast<int>(best - g.algorithms.begin()) + 1, static_cast<int>(g.algorithms.size()),
                *best / g.algorithms[0]);
  }
}

void print(limits const& most, std::vector<plan_gemm> const& gemms) {
  std::printf("\nlimits of the device\n");
  mark();
  std::printf("  copy %.1f, read %.1f, update in place %.1f GB/s; GEMM bf16 %.1f TFLOP/s\n", 1e-9 * most.copy,
              1e-9 * most.read, 1e-9 * most.update, 1e-12 * most.flops);
  std::printf("  %-40s %7s %7s %7s %9s %9s %6s\n", "GEMM of the plan", "m", "n", "k", "us", "TFLOP/s", "share");
  for (auto const& g : gemms) {
    std::printf("  %-40s %7lld %7lld %7lld", g.name.c_str(), static_cast<long long>(g.m), static_cast<long long>(g.n),
                static_cast<long long>(g.k));
    std::printf(" %9.1f %9.1f %6.2f\n", 1e6 * g.seconds, 1e-12 * g.rate(), g.rate() / most.flops);
  }
  print_algorithms(gemms);
}

void write(ct::io::json_writer& json, limits const& most, std::vector<plan_gemm> const& gemms) {
  json.object("limits", ct::io::json_layout::row).member("copy_bytes", most.copy).member("read_bytes", most.read);
  json.member("update_bytes", most.update).member("gemm_flops", most.flops).end();
  json.array("gemms");
  for (auto const& g : gemms) {
    json.object(ct::io::json_layout::row).member("name", g.name).member("m", g.m).member("n", g.n).member("k", g.k);
    json.member("seconds", g.seconds).member("flops", g.rate());
    if (!g.algorithms.empty()) {
      json.array("algorithms");
      for (double const each : g.algorithms) json.element(each);
      json.end();
    }
    json.end();
  }
  json.end();
}

template <class configuration>
void report(machine const& m, limits const& most, graph_step const& step, eager_step const& eager,
            ct::io::json_writer& json) {
  using trainer = typename configuration::trainer;
  auto const tokens = static_cast<double>(trainer::batch_tokens), flops = configuration::model_flops();
  auto const rate = flops / step.seconds;
  std::printf("\n%s: GPT-2 with %lld parameters, AdamW\n", configuration::name().c_str(),
              static_cast<long long>(trainer::parameter_count));
  mark();
  std::printf("  step as a graph %9.3f ms (%.3f to %.3f), %.0f tokens/s, %.1f TFLOP/s of the model\n",
              1e3 * step.seconds, 1e3 * step.least, 1e3 * step.most, tokens / step.seconds, 1e-12 * rate);
  if (m.peak_flops > 0)
    std::printf("  MFU %.3f of the data sheet's %.1f TFLOP/s, ", rate / m.peak_flops, 1e-12 * m.peak_flops);
  else std::printf("  MFU: no data sheet's rate is known for this device; ");
  std::printf("%.3f of the GEMM above; %lld kernels, %zu nodes of a graph\n", rate / most.flops,
              static_cast<long long>(trainer::kernel_launches), eager.graph_nodes);
  std::printf("  kernels one by one, with events %9.3f ms\n", 1e3 * eager.seconds);
  std::printf("  memory: planned %.1f MiB, taken from the driver %.1f MiB\n", trainer::memory.peak.mebibytes(),
              ct::bytes(step.driver_bytes).mebibytes());
  json.member("step_seconds", step.seconds).member("least_seconds", step.least).member("most_seconds", step.most);
  json.member("eager_seconds", eager.seconds).member("loss", step.loss);
  json.member("tokens_per_second", tokens / step.seconds).member("model_flops", flops);
  if (m.peak_flops > 0) json.member("mfu", rate / m.peak_flops);
  else json.member("mfu", nullptr);
  json.member("share_of_gemm", rate / most.flops).member("kernels", trainer::kernel_launches);
  json.member("graph_nodes", static_cast<std::int64_t>(eager.graph_nodes));
  json.member("planned_bytes", trainer::memory.peak.count()).member("driver_bytes", step.driver_bytes);
}

/// Runs two steps for a profiler, without a graph; only the first step includes one-time initialization. Throws `error`
/// if the plan does not fit into the free memory.
template <class configuration> void run_steps() {
  if (!fits(configuration::trainer::memory.peak, memory_now()))
    throw ct::error("cuda.training_step: the plan does not fit into the device's free memory; end other programs on "
                    "the device, or run the program of a smaller size");
  typename configuration::plan p;
  p.run(), p.run();
  ct::cuda_check(cudaStreamSynchronize(p.on_device().context().stream()), "run the kernels");
}

template <class configuration> std::string measure(arguments const& a, machine const& m) {
  auto const size = tiny ? tiny_sizes : sizes{};
  auto const rounds = a.rounds > 0 ? a.rounds : tiny ? 2 : 20;
  auto gemms = gemms_of(measured_plan_of<typename configuration::plan::entry, device>());
  limits most;
  {
    laboratory<device> const here(array_bytes(gemms, size));
    most = measure_limits(here, size);
    for (auto& g : gemms) {
      g.seconds = seconds_of_gemm(here, g, size);
      if (a.part == "limits") g.algorithms = seconds_of_algorithms(here, g, size);
    }
  }
  ct::io::json_writer json;
  json.object().member("name", configuration::name()).member("measured", measured);
  ct::bench::write(json, m);
  print(most, gemms);
  write(json, most, gemms);
  if (a.part == "limits") return json.end().text();
  auto const now = memory_now();
  bool const it_fits = fits(configuration::trainer::memory.peak, now);
  json.member("fits", it_fits).member("free_bytes", now.free).member("memory_bytes", now.all);
  if (it_fits) {
    auto const step = measure_graph<configuration>(rounds);
    auto const eager = measure_calls<configuration>(most, rounds);
    report<configuration>(m, most, step, eager, json);
    std::printf("  time by op; share: least time at the limits / time; above 1 if the caches hold the data\n");
    ct::bench::print(eager.kinds, stdout, {"TFLOP/s", 1e12, 3});
    ct::bench::write(json, eager.kinds);
    ct::bench::write(json, eager.nodes, "nodes");
  }
  json.end();
  return json.text();
}

/// The model and the number of sequences that this program measures, as --size names them.
std::string size_name() { return tiny ? "tiny" : (large ? "774m." : "") + std::to_string(CONSTRAIN_BENCH_SEQUENCES); }

arguments read_arguments(int count, char** values) {
  arguments a;
  for (int i = 1; i < count; i += 2) {
    std::string const name = values[i], value = i + 1 < count ? values[i + 1] : "";
    if (name == "--size" && value == size_name()) {
    } // the only size of this program
    else if (name == "--rounds" && !value.empty())
      a.rounds = std::max(1, std::atoi(value.c_str()));
    else if (name == "--part" && (value == "limits" || value == "steps")) a.part = value;
    else if (name == "--out" && !value.empty()) a.out = value;
    else
      throw ct::error("cuda.training_step: the options of this program are --size " + size_name() +
                      ", --part limits|steps, --rounds N and --out DIRECTORY, not '" + name +
                      (value.empty() ? "" : " " + value) + "'");
  }
  return a;
}

template <class configuration> void run(arguments const& a, machine const& m) {
  if (a.part == "steps") return run_steps<configuration>();
  auto const text = measure<configuration>(a, m);
  if (a.out.empty()) return;
  auto const path =
      a.out + "/cuda." + (a.part.empty() ? "training_step" : a.part) + "." + m.file() + "." + size_name() + ".json";
  std::ofstream file(path);
  if (!(file << text << "\n"))
    throw ct::error("cuda.training_step: " + path + " cannot be written; give a writable directory");
  std::printf("\nwritten: %s\n", path.c_str());
}

} // namespace

int main(int count, char** values) try {
  auto const a = read_arguments(count, values);
  auto const m = find_machine();
  std::printf("%s, driver %d, runtime %d\n", m.name.c_str(), m.driver, m.runtime);
  run<measured_configuration>(a, m);
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
