#pragma once

#include "constrain/model/task.hpp"
#include "constrain/op/cpu.hpp" // the kernels that passes look up for `source::device`
#if defined(CONSTRAIN_WITH_CUDA)
#include "constrain/op/cuda.cuh"
#endif
#include "constrain/pass/cost.hpp"
#include "constrain/pass/step_passes.hpp"
#include "constrain/policy/policies.hpp"
#include "constrain/run/device_plan.hpp"

#include <cstdint>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The policies of `list` that have a `pass` or an `after`, in the same order, after the policies `found`. (A policy
/// with only one of the two is refused later.)
template <class list, class... found> struct with_pass { using type = policy_list<found...>; };
template <class first, class... rest, class... found>
struct with_pass<policy_list<first, rest...>, found...>
    : std::conditional_t<has_pass<first>() || has_after<first>, with_pass<policy_list<rest...>, found..., first>,
                         with_pass<policy_list<rest...>, found...>> {};

/// The members of a set of policies that the passes of an entry without gradients read.
template <class precision_, class attention_, class fusion_, class parallelism_, class device_, class target_,
          class in_order_, bool casts_biases_, bool keeps_copies_, int broken_>
struct forward_policies {
  using precision = precision_;
  using attention = attention_;
  using fusion = fusion_;
  using parallelism = parallelism_;
  using device = device_;
  using target = target_;
  using in_order = in_order_;
  static constexpr bool casts_biases = casts_biases_;
  static constexpr bool keeps_copies = keeps_copies_; // whether the trainer's step keeps compute copies
  struct composition {
    static constexpr int broken = broken_;
  };
};

/// The `forward_policies` of a set. They are the same type for sets that differ only in policies that the passes of an
/// entry without gradients do not read, such as the optimizer. So trainers of one task share the results of these
/// passes, which saves compile time. `keeps_copies`: whether the trainer's step keeps compute copies.
template <class set, bool keeps_copies>
using forward_policies_of =
    forward_policies<typename set::precision, typename set::attention, typename set::fusion, typename set::parallelism,
                     typename set::device, typename set::target, typename with_pass<typename set::in_order>::type,
                     set::casts_biases, keeps_copies, set::composition::broken>;

/// The program of one entry as a task builds it, with parameters and activations of type `real`. All sets of policies
/// with the same `master` dtype share this constant.
template <class task, entry e, dtype real> inline constexpr program built_program = task::build(e, real);

/// The model's program of one entry, before any pass.
template <class task, class policy_set, entry e> struct entry_source {
  using policies = policy_set;
  using device = typename policy_set::target;
  /// The program, in the master weights' dtype. For a refused composition of policies, no pass changes the program.
  static constexpr decltype(auto) build() {
    constexpr auto const& built = built_program<task, e, policy_set::precision::value.master>;
    if constexpr (policy_set::composition::broken < 0) return (built);
    else {
      program refused = built;
      refused.fail(diagnosis_with<refusals::composition_is_refused>());
      return refused;
    }
  }
};

/// The maximum of several integers and 0.
template <class... integers> constexpr std::int64_t largest(integers... numbers) {
  std::int64_t maximum = 0;
  ((maximum = numbers > maximum ? numbers : maximum), ...);
  return maximum;
}

/// Bytes that a trainer with the plan `step` and the entries `others` needs; -1 if one of their programs is refused.
/// `others`: plans that do not share the persistent values of `step`, so that several sets of policies can use the same
/// plans. In the trainer, their other buffers begin after the persistent values of `step`; nothing else in these plans
/// changes, because a layout does not depend on the offset at which it begins.
template <class target, class step, class... others> constexpr std::int64_t bytes_of_plans() {
  if (!(step::failure.ok() && ... && others::failure.ok())) return -1;
  auto const end =
      largest(step::where.end, (step::where.persistent_end - others::where.persistent_end + others::where.end)...);
  auto const scratch = largest(device_plan_of<step, target>.scratch, device_plan_of<others, target>.scratch...);
  device_reserve const reserve{target::parameter_bytes + scratch, target::alignment};
  return reserve.begin(end) + reserve.bytes;
}

/// Bytes that a trainer with these passes needs for its step: the trainer's peak, unless another entry needs more. -1
/// if the program is refused.
template <class passes, class target> constexpr std::int64_t bytes_of_step() {
  return bytes_of_plans<target, planned<passes, void, target>>();
}

/// `bytes_of_step` for a candidate of checkpoint::budget. If no kernel of the program without recomputation has
/// `needs_of`, the candidate's program needs no scratch memory, and is neither verified nor lowered, which would take
/// g++ a quarter of the time for a candidate: the trainer verifies and lowers the chosen program. So the search does
/// not skip a candidate that `verify` refuses.
template <class passes, class without_recomputation, class target> constexpr std::int64_t bytes_of_candidate() {
  using kept = planned<without_recomputation, void, target>;
  if constexpr (std::is_same_v<passes, without_recomputation>) return bytes_of_step<passes, target>();
  else if constexpr (!kept::failure.ok() || device_plan_of<kept, target>.has_needs)
    return bytes_of_step<passes, target>();
  else {
    if (!passes::final.failure.ok()) return -1;
    device_reserve const reserve{target::parameter_bytes, target::alignment};
    return reserve.begin(plan_memory(passes::final, 0, target::alignment).end) + reserve.bytes;
  }
}

/// The model's program of the entry `step`, before any pass.
template <class task, class policy_set> struct step_source : entry_source<task, policy_set, entry::step> {
  // An optimizer with neither a state nor an update rule was already refused; sgd replaces it, so that only that error
  // is printed.
  using innermost = detail::innermost<typename policy_set::optimizer>;
  static constexpr bool can_update = has_state<innermost> || has_update_rule<innermost>;
  using optimizer = std::conditional_t<can_update, typename policy_set::optimizer, constrain::optimizer::sgd>;
  using target = typename policy_set::target;
  /// `bytes_of_step` of these passes on this device.
  template <class passes> static constexpr std::int64_t bytes_of() { return bytes_of_step<passes, target>(); }
  /// `detail::bytes_of_candidate` of these passes on this device.
  template <class passes, class without_recomputation> static constexpr std::int64_t bytes_of_candidate() {
    return detail::bytes_of_candidate<passes, without_recomputation, target>();
  }
};

/// The source of a trainer's entry.
template <class task, class policy_set, entry e> struct source_of_entry {
  static constexpr bool keeps_copies = step_passes<step_source<task, policy_set>>::keeps_copies;
  using type = entry_source<task, forward_policies_of<policy_set, keeps_copies>, e>;
};
template <class task, class policy_set> struct source_of_entry<task, policy_set, entry::step> {
  using type = step_source<task, policy_set>;
};

/// The plan of an entry without gradients that does not share the persistent values of the step.
template <class task, class policy_set, entry e>
using own_plan =
    planned<forward_passes<typename source_of_entry<task, policy_set, e>::type>, void, typename policy_set::target>;

/// The plan of the casts that make the compute copies of the plan `step`, with the same persistent values; `step`
/// itself if `step_program` keeps no compute copies.
template <class step_program, class step> struct plan_of_casts_or_step { using type = step; };
template <class step_program, class step>
  requires(step_program::keeps_copies)
struct plan_of_casts_or_step<step_program, step> {
  using type = planned<casts_passes<step_program>, void, typename step_program::set::target>;
};
template <class step_program, class step>
using plan_of_casts = typename plan_of_casts_or_step<step_program, step>::type;

/// `entries<task, policy_set>::memory.peak`; -1 if the program of an entry is refused. Sets of policies that differ
/// only in the step share the plans of the other entries.
template <class task, class policy_set> constexpr std::int64_t bytes_of_trainer() {
  using target = typename policy_set::target;
  using step_program = step_passes<step_source<task, policy_set>>;
  using step = planned<step_program, void, target>;
  using casts = plan_of_casts<step_program, step>;
  return bytes_of_plans<target, step, casts, own_plan<task, policy_set, entry::evaluate>,
                        own_plan<task, policy_set, entry::predict>, own_plan<task, policy_set, entry::generate>>();
}

} // namespace constrain::detail
