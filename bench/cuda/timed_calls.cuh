#pragma once

#include "../profile.hpp"
#include "device_limits.cuh"

#include <cstdint>
#include <string_view>
#include <vector>

namespace constrain::bench {

/// Hooks that record an event after every call. Calls are merged as they are without hooks; the last call of a merged
/// group gets the time of the group. The time of a call includes the gap before it, so the times add up to the time of
/// the run.
class timed_calls {
public:
  static constexpr bool merges_calls = true;

  timed_calls(measured_plan const& plan, cudaStream_t stream) : plan_(plan), stream_(stream) {}

  void before(int, step const&, bound_operand const*, loop_state const&) {
    if (calls_.empty()) record(0);
  }
  void after(int index, step const& s, bound_operand const* bound, loop_state const& loops) {
    calls_.push_back({index, work_of(plan_, s, bound, constrain::detail::current_adds(plan_, s, loops))});
    record(calls_.size());
  }

  /// Waits for the end of the run, adds the times of its calls to `times`, and returns the time of the run. Afterwards,
  /// the hooks can be used for another run.
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
  std::vector<event> events_; // one before the first call, and one after each call
};

/// The GEMMs of the linear layers in a plan; equal GEMMs are listed once.
inline std::vector<plan_gemm> gemms_of(measured_plan const& plan) {
  std::vector<plan_gemm> all;
  for (int i = 0; i < plan.step_count; ++i) {
    auto const& s = plan.steps[i];
    if (s.op == nullptr) continue;
    std::string_view const op = s.op->name;
    auto const& x = plan.operands[s.first_operand];
    auto const& second = plan.operands[s.first_operand + 1];
    auto const rows = x.count / x.shape.features();
    auto const& y = plan.operands[s.first_operand + s.inputs];
    plan_gemm g{"", transpose::no, transpose::no, rows, second.shape.features(), x.shape.features(), x.row_stride};
    if (op == "linear") g.b = transpose::yes, g.n = second.shape.extent[0], g.lda = 0, g.ldc = y.row_stride;
    else if (op == "linear_weight_gradient") g.a = transpose::yes, g.m = x.shape.features(), g.k = rows, g.adds = true;
    else if (op != "linear_input_gradient") continue;
    g.name = name_of_kind(plan, s);
    bool known = false;
    for (auto const& other : all) known = known || other == g;
    if (!known) all.push_back(g);
  }
  return all;
}

} // namespace constrain::bench
