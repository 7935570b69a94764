#pragma once

#include "cuda/tasks.hpp"

#include <constrain/device/cuda/context.cuh>
#include <constrain/run/cuda_arena.cuh>
#include <constrain/run/device_plan.hpp>
#include <constrain/run/executor.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace constrain::test {

/// The kernels of calls, by op and operand types, taken from trainers that are compiled. Programs of other shapes that
/// are made at run time find theirs here, so that hundreds of models cost the compile time of a few.
class known_kernels {
public:
  struct kernel {
    launcher launch = nullptr;
    detail::needs_rule needs = nullptr;
  };

  /// Adds the kernels of the plan `planned_entry::value`.
  template <class planned_entry> void add() {
    constexpr auto const& calls = detail::calls_of<planned_entry>;
    constexpr auto rules = detail::needs_rules<planned_entry, target>(detail::call_indices<planned_entry>{});
    static_assert(sizeof(plan_has_kernels<planned_entry, target>) > 0);
    for (int i = 0; i < calls.count; ++i) {
      auto const& s = planned_entry::value.steps[calls.first[i]];
      all_[key_of(planned_entry::value, s)] = {
          launchers<planned_entry, target>[static_cast<std::size_t>(calls.first[i])],
          rules[static_cast<std::size_t>(i)]};
    }
  }
  /// Null if no trainer that was added makes this call.
  template <class plan> kernel const* find(plan const& p, step const& s) const {
    auto const found = all_.find(key_of(p, s));
    return found == all_.end() ? nullptr : &found->second;
  }

private:
  using key = std::pair<std::uint64_t, std::vector<int>>;
  template <class plan> static key key_of(plan const& p, step const& s) {
    key k{s.op->identity, {s.inputs}};
    for (int i = 0; i < s.inputs + s.outputs; ++i)
      k.second.push_back(static_cast<int>(p.operands[s.first_operand + i].type));
    return k;
  }

  std::map<key, kernel> all_;
};

/// A plan that is made at run time, for the device.
class run_time_plan {
public:
  /// `alignment`: of the buffers; a value other than the device's is a fault that a test plants.
  run_time_plan(program const& p, memory_layout const& where, known_kernels const& kernels)
      : plan_(std::make_unique<table>(lower<capacity, operands>(p, where))) {
    auto& plan = *plan_;
    for (int i = p.nodes.size(); i < capacity; ++i) plan.steps[i].kind = node_kind::end;
    auto const calls = std::make_unique<detail::distinct_calls<capacity>>(detail::find_calls<capacity>(plan));
    std::vector<detail::needs_rule> rules;
    for (int i = 0; i < calls->count; ++i) {
      auto const* const kernel = kernels.find(plan, plan.steps[calls->first[i]]);
      if (kernel == nullptr) unknown = plan.steps[calls->first[i]].op->name;
      rules.push_back(kernel == nullptr ? nullptr : kernel->needs);
    }
    for (int i = 0; i < p.nodes.size() && unknown == nullptr; ++i) {
      bool const is_call = plan.steps[i].kind == node_kind::call;
      launchers_.push_back(is_call ? kernels.find(plan, plan.steps[i])->launch : nullptr);
    }
    on_device_ =
        std::make_unique<device_plan<capacity>>(detail::plan_for<target, capacity>(plan, *calls, rules.data()));
    steps_ = p.nodes.size();
    planned_launches = work_of(p, [&](int node) { return on_device_->steps[node].launches; }).kernel_launches;
    arena_end = device_reserve{target::parameter_bytes, target::alignment}.begin(where.end);
  }

  /// Runs it once. `h`: hooks of the executor.
  template <class hooks> void run(hooks&& h) const {
    cuda_stream const stream{cuda_device()};
    auto const scratch = arena_end + target::parameter_bytes;
    cuda_arena const arena(bytes(scratch + on_device_->scratch), stream);
    cuda_context context(stream, arena.data() + arena_end);
    step_parameters parameters;
    parameters.context = &context;
    plan_view const view{plan_->steps,      steps_,           plan_->operands, plan_->axes, plan_->micro_batches,
                         launchers_.data(), on_device_->steps};
    h.begin = arena.data(), h.end = arena.data() + arena_end;
    execute(view, arena.data(), parameters, h, arena.data() + scratch);
  }

  char const* unknown = nullptr;     // a call that no known kernel takes; null: none
  std::int64_t planned_launches = 0; // of one run
  std::int64_t arena_end = 0;        // where the buffers end, and the step parameters begin

private:
  static constexpr int capacity = program::maximum_nodes, operands = 6 * capacity;
  using table = plan<capacity, operands>;

  std::unique_ptr<table> plan_;
  std::unique_ptr<device_plan<capacity>> on_device_;
  std::vector<launcher> launchers_;
  int steps_ = 0;
};

} // namespace constrain::test
