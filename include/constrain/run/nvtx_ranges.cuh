#pragma once

#include "constrain/run/executor.hpp"

#if defined(CONSTRAIN_WITH_NVTX)
#include "constrain/program/print.hpp"

#include <nvtx3/nvToolsExt.h>

#include <cstddef>
#include <string>
#include <vector>
#endif

namespace constrain::inline CONSTRAIN_VARIANT {

#if defined(CONSTRAIN_WITH_NVTX)

namespace detail {

/// The name of the range around a call, such as "linear block.mlp.up.weight": the op, then the first value of the call
/// that has a name or, if none has one, the call's first output. Values are named as in a printed program.
inline std::string name_of_range(program const& p, node const& n) {
  std::string name;
  auto const take_named = [&](auto const& refs) {
    for (ref const& r : refs) {
      auto const& info = p.values[r.value];
      if (name.empty() && (info.belongs_to >= 0 || info.name.length > 0)) name = name_of_value(p, r);
    }
  };
  take_named(n.inputs), take_named(n.outputs);
  if (name.empty() && n.outputs.size() > 0) name = name_of_value(p, n.outputs[0]);
  return concat({n.op->name, " ", name});
}

/// The names of the ranges of a plan, by the index of the step; empty for a loop's begin and end.
template <class planned_entry> std::vector<std::string> const& names_of_ranges() {
  static std::vector<std::string> const names_by_step = [] {
    auto const& plan = planned_entry::value;
    std::vector<std::string> names(static_cast<std::size_t>(plan.steps_size));
    for (std::size_t i = 0; i < names.size(); ++i)
      if (plan.steps[i].kind == node_kind::call)
        names[i] = name_of_range(planned_entry::final, planned_entry::final.nodes[plan.steps[i].source]);
    return names;
  }();
  return names_by_step;
}

} // namespace detail

/// Executor hooks that put an NVTX range around every call, and call `inner` within the range. Profilers such as Nsight
/// Systems show the ranges on the thread that makes the calls. A replay of a captured graph makes no calls, so it has
/// no ranges.
template <class inner> class nvtx_ranges {
public:
  static constexpr bool merges_calls = constrain::merges_calls<inner>;

  /// `names`: names of the ranges, by the index of the step. `names` and `hooks` must outlive this object.
  nvtx_ranges(std::vector<std::string> const& names, inner& hooks) : names_(names), inner_(hooks) {}
  /// Ends the range of a call that has thrown.
  ~nvtx_ranges() {
    if (is_open_) nvtxRangePop();
  }
  nvtx_ranges(nvtx_ranges const&) = delete;
  nvtx_ranges& operator=(nvtx_ranges const&) = delete;

  /// Begins the range of a call. Arguments as for `no_hooks`.
  void before(int index, step const& s, bound_operand const* bound, loop_state const& loops) {
    if (is_open_) nvtxRangePop(); // left open by a call that threw
    nvtxRangePushA(names_[static_cast<std::size_t>(index)].c_str());
    is_open_ = true;
    inner_.before(index, s, bound, loops);
  }
  /// Ends the range of a call.
  void after(int index, step const& s, bound_operand const* bound, loop_state const& loops) {
    inner_.after(index, s, bound, loops);
    nvtxRangePop();
    is_open_ = false;
  }

private:
  std::vector<std::string> const& names_;
  inner& inner_;
  bool is_open_ = false;
};

/// The hooks `h`, which must outlive the result, with an NVTX range around every call of the plan
/// `planned_entry::value`.
template <class planned_entry, class hooks> nvtx_ranges<hooks> with_ranges(hooks& h) {
  return {detail::names_of_ranges<planned_entry>(), h};
}

#else

/// `h` itself: without CONSTRAIN_WITH_NVTX, there are no NVTX ranges.
template <class planned_entry, class hooks> hooks& with_ranges(hooks& h) { return h; }

#endif

} // namespace constrain
