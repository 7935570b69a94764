#pragma once

#include "../profile.hpp"
#include "device_limits.cuh"

#include <cstdint>
#include <string_view>
#include <vector>

namespace constrain::bench {

/// Hooks that put an event behind every call. Calls are merged as without hooks: of merged calls, the last has the time
/// of all. The time of a call includes the gap before it, so the times add up to the time of the run.
class timed_calls {
public:
  static constexpr bool merges_calls = true;

  timed_calls(measured_plan const& plan, cudaStream_t stream) : plan_(plan), stream_(stream) {}

  void before(int, step const&, bound_operand const*, loop_state const&) {
    if (calls_.empty()) record(0);
  }
  void after(int index, step const& s, bound_operand const* bound, loop_state const& loops) {
    calls_.push_back({index, work_of(plan_, s, bound, constrain::detail::adds_now(plan_, s, loops))});
    record(calls_.size());
  }

  /// Waits for the run, adds the times of its calls to `times`, and returns the time of all; then it can be used again.
  double finish(call_times& times) {
    events_[calls_.size()].wait();
    for (std::size_t i = 0; i < calls_.size(); ++i)
      times.add(calls_[i].index, calls_[i].done, seconds_between(events_[i], events_[i + 1]));
    auto const all = seconds_between(events_[0], events_[calls_.size()]);
    calls_.clear();
    return all;
  }

private:
  struct timed_call {
    int index;
    work done;
  };

  void record(std::size_t i) {
    if (i == events_.size()) events_.emplace_back();
    events_[i].record(stream_);
  }

  measured_plan plan_;
  cudaStream_t stream_;
  std::vector<timed_call> calls_;
  std::vector<event> events_; // before the first call, and behind each
};

/// The GEMMs of linear layers in a plan, each shape once.
inline std::vector<plan_gemm> gemms_of(measured_plan const& plan) {
  std::vector<plan_gemm> all;
  for (int i = 0; i < plan.step_count; ++i) {
    auto const& s = plan.steps[i];
    if (s.op == nullptr) continue;
    std::string_view const op = s.op->name;
    auto const& x = plan.operands[s.first_operand];
    auto const& second = plan.operands[s.first_operand + 1];
    auto const rows = x.count / x.shape.features();
    plan_gemm g;
    if (op == "linear") g = {"", transpose::no, transpose::yes, rows, second.shape.extent[0], x.shape.features()};
    else if (op == "linear_input_gradient")
      g = {"", transpose::no, transpose::no, rows, second.shape.features(), x.shape.features()};
    else if (op == "linear_weight_gradient")
      g = {"", transpose::yes, transpose::no, x.shape.features(), second.shape.features(), rows, true};
    else continue;
    g.name = name_of_kind(plan, s);
    bool known = false;
    for (auto const& other : all) known = known || other == g;
    if (!known) all.push_back(g);
  }
  return all;
}

} // namespace constrain::bench
