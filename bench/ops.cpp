// Measures each distinct call in the plan of a GPT-2 124M step separately. A measurement repeats one call on the same
// bytes, so small operands stay in the caches. bench.training_step measures the calls within a step.

#include "cpu_limits.hpp"
#include "step_of_plan.hpp"
#include "work.hpp"

#include <benchmark/benchmark.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::bench;

namespace {

limits most;

/// Copies of a call's operands, and a function that runs the call's kernel on them. The copies do not overlap, because
/// an output in place of an input would change that input from run to run.
class captured_call {
public:
  captured_call(measured_plan const& plan, int index, ct::bound_operand const* bound, ct::loop_state const& loops,
                ct::step_parameters const& parameters)
      : step_(plan.steps[index]), launch_(plan.launchers[index]), adds_(ct::detail::current_adds(plan, step_, loops)),
        parameters_(parameters), arena_(ct::bytes(end_of(plan, bound, nullptr))) {
    std::vector<std::int64_t> offsets;
    end_of(plan, bound, &offsets);
    for (int k = 0; k < step_.inputs + step_.outputs; ++k) {
      bound_.push_back(bound[k]);
      bound_.back().data = arena_.data() + offsets[static_cast<std::size_t>(k)];
      std::memcpy(bound_.back().data, bound[k].data, size_of_operand(plan, bound, k));
    }
    work_ = work_of(plan, step_, bound_.data(), adds_);
  }

  void run() {
    ct::call c{step_.attributes, parameters_};
    c.adds = adds_;
    c.random_key = step_.random_key;
    launch_(c, bound_.data());
  }
  constrain::bench::work const& work() const { return work_; }

private:
  std::size_t size_of_operand(ct::plan_view const& plan, ct::bound_operand const* bound, int k) const {
    return static_cast<std::size_t>(bound[k].count * size_of(plan.operands[step_.first_operand + k].type));
  }
  std::int64_t end_of(ct::plan_view const& plan, ct::bound_operand const* bound,
                      std::vector<std::int64_t>* offsets) const {
    std::int64_t end = 0;
    for (int k = 0; k < step_.inputs + step_.outputs; ++k) {
      if (offsets) offsets->push_back(end);
      // A multiple of 4096 plus one cache line, so that operands do not compete for the same cache sets.
      end += (static_cast<std::int64_t>(size_of_operand(plan, bound, k)) + 4095) / 4096 * 4096 + 64;
    }
    return end;
  }

  ct::step const& step_;
  ct::launcher launch_;
  unsigned adds_;
  ct::step_parameters parameters_;
  ct::host_arena arena_;
  std::vector<ct::bound_operand> bound_;
  constrain::bench::work work_;
};

using captured_calls = std::map<std::string, std::unique_ptr<captured_call>>;

/// Hooks that capture the first call of each wanted name.
struct capture_hooks {
  measured_plan plan;
  ct::step_parameters const& parameters;
  std::function<bool(std::string const&)> wanted;
  captured_calls& calls;

  void before(int index, ct::step const& s, ct::bound_operand const* bound, ct::loop_state const& loops) {
    auto const name = name_of_call(plan, s);
    if (!wanted(name) || calls.contains(name)) return;
    calls.emplace(name, std::make_unique<captured_call>(plan, index, bound, loops, parameters));
  }
  void after(int, ct::step const&, ct::bound_operand const*, ct::loop_state const&) {}
};

/// The captured calls of one plan at a time, which suffices because benchmarks run in the order of registration.
captured_calls held;
void const* held_plan = nullptr;

template <class step_of_plan>
captured_call& captured(std::string const& name, std::function<bool(std::string const&)> const& wanted) {
  auto const plan = measured_plan_of<typename step_of_plan::entry>();
  if (held_plan != plan.steps) {
    held.clear();
    step_of_plan step(0.1);
    step.run(capture_hooks{plan, step.parameters(), wanted, held});
    held_plan = plan.steps;
  }
  return *held.at(name);
}

/// Registers one benchmark for each wanted name among the calls of a plan.
template <class step_of_plan>
void add(std::string const& prefix, std::function<bool(std::string const&)> const& wanted) {
  auto const plan = measured_plan_of<typename step_of_plan::entry>();
  std::set<std::string> names;
  for (int i = 0; i < plan.step_count; ++i) {
    if (plan.steps[i].kind != ct::node_kind::call) continue;
    auto const name = name_of_call(plan, plan.steps[i]);
    if (!wanted(name) || !names.insert(name).second) continue;
    auto* const one = benchmark::RegisterBenchmark((prefix + "/" + name).c_str(), [=](benchmark::State& state) {
      auto& call = captured<step_of_plan>(name, wanted);
      auto const seconds = seconds_of([&] {
                             for (auto _ : state) {
                               call.run();
                               benchmark::ClobberMemory();
                             }
                           }) /
                           static_cast<double>(state.iterations());
      auto const& w = call.work();
      if (w.flops / most.flops > w.bytes / most.bandwidth()) state.counters["GFLOP/s"] = w.flops / seconds * 1e-9;
      else state.counters["GB/s"] = w.bytes / seconds * 1e-9;
      state.counters["share_of_limit"] = w.seconds_at(most) / seconds;
    });
    one->UseRealTime()->Unit(benchmark::kMicrosecond);
  }
}

void add_limits() {
  auto const add = [](char const* name, char const* unit, double value) {
    auto* const one = benchmark::RegisterBenchmark(name, [=](benchmark::State& state) {
      for (auto _ : state) benchmark::ClobberMemory();
      state.counters[unit] = value * 1e-9;
    });
    one->Iterations(1);
  };
  add("limit/multiply_add", "GFLOP/s", most.flops);
  add("limit/copy", "GB/s", most.copy), add("limit/triad", "GB/s", most.triad), add("limit/read", "GB/s", most.read);
  add("limit/update", "GB/s", most.update);
}

// One layer: all twelve have the same shapes.
constexpr ct::gpt2 one_layer{.layers = 1};
constexpr ct::gpt2 small_vocabulary{.layers = 1, .vocabulary = 256};

template <int tokens>
using step_task = ct::task<one_layer, ct::causal_lm, ct::micro_batch{.sequences = 4, .tokens = tokens}>;
template <int sequences, int tokens>
using attention_task =
    ct::task<small_vocabulary, ct::causal_lm, ct::micro_batch{.sequences = sequences, .tokens = tokens}>;

bool anything(std::string const&) { return true; }
bool attends(std::string const& name) { return name.find("attention") != name.npos; }
bool updates_table(std::string const& name) { return name.starts_with("update/50257x768"); }

template <class precision> void add_precision(std::string const& name) {
  using reference = ct::attention::reference;
  using flash = ct::attention::flash;
  add<step_of_plan<step_task<64>, precision>>(name + "/4x64", anything);
  add<step_of_plan<step_task<256>, precision>>(name + "/4x256", anything);
  add<step_of_plan<attention_task<4, 64>, precision, reference>>(name + "/4x64", attends);
  add<step_of_plan<attention_task<4, 256>, precision, reference>>(name + "/4x256", attends);
  add<step_of_plan<attention_task<1, 1024>, precision, flash>>(name + "/1x1024", attends);
  add<step_of_plan<attention_task<1, 1024>, precision, reference>>(name + "/1x1024", attends);
}

} // namespace

int main(int count, char** values) {
  benchmark::Initialize(&count, values);
  if (benchmark::ReportUnrecognizedArguments(count, values)) return 1;
  most = measure_limits();
  add_limits();
  add_precision<ct::precision::fp32>("fp32");
  add_precision<ct::precision::bf16>("bf16");
  // `add_precision` registers the update by AdamW, the default optimizer.
  add<step_of_plan<step_task<64>, ct::optimizer::sgd>>("sgd", updates_table);
  add<step_of_plan<step_task<64>, ct::optimizer::momentum>>("momentum", updates_table);
  add<step_of_plan<step_task<64>, ct::optimizer::nesterov>>("nesterov", updates_table);
  benchmark::RunSpecifiedBenchmarks();
  held.clear();
}
