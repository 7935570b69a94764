#pragma once

#include "constrain/pass/accumulate.hpp"
#include "constrain/pass/coalesce.hpp"
#include "constrain/pass/dead_code_elimination.hpp"
#include "constrain/pass/differentiate.hpp"
#include "constrain/pass/divide.hpp"
#include "constrain/pass/evaluation.hpp"
#include "constrain/pass/fuse.hpp"
#include "constrain/pass/in_place.hpp"
#include "constrain/pass/join_slices.hpp"
#include "constrain/pass/keep_and_partition.hpp"
#include "constrain/pass/mixed_precision.hpp"
#include "constrain/pass/own_pass.hpp"
#include "constrain/pass/pad_rows.hpp"
#include "constrain/pass/planned.hpp"
#include "constrain/pass/recompute.hpp"
#include "constrain/pass/refusals.hpp"
#include "constrain/pass/round_operands.hpp"
#include "constrain/pass/select.hpp"
#include "constrain/pass/slice_views.hpp"
#include "constrain/pass/sum_parts_together.hpp"
#include "constrain/pass/update.hpp"
#include "constrain/program/sound.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

// The result of nearly every pass is a separate constant, because compilers limit the work of one constant expression,
// and so that each result can be printed. nvcc takes 30 MB of memory for each constant, and 30 MB more for each call
// among the arguments in the constant's initializer, but none for calls inside a function that takes the program.
// Therefore, one function runs consecutive passes if all of them always run and no policy can insert a pass between
// them.

namespace detail {

/// The passes that let values share bytes: copy coalescing (`coalesce`), views that replace slices, reshapes,
/// concatenations and stacks, and in-place results. On a CUDA device (`is_cuda`), also `pad_rows`.
constexpr program share_bytes(program const& p, bool is_cuda = false) {
  program out = p;
  if (!p.failure.ok()) return out;
  coalesce_copies(out);
  make_views(out);
  overwrite_inputs(out);
  if (is_cuda) row_padding(out).run();
  return out;
}

/// The program `passes::without_dead_code`, after the policies' passes that follow it, divided over the ranks of a
/// tensor group.
template <class passes>
inline constexpr program divided_program =
    divide(with_policy_passes<typename passes::set, pass_name::without_dead_code, passes::without_dead_code>(),
           passes::set::parallelism::value.tensor);

template <class passes> constexpr decltype(auto) divided() {
  if constexpr (passes::set::parallelism::value.tensor > 1) return (divided_program<passes>);
  else return with_policy_passes<typename passes::set, pass_name::without_dead_code, passes::without_dead_code>();
}

} // namespace detail

namespace detail {

/// The fused program, with the operands of GEMMs rounded to TF32.
template <class passes>
inline constexpr program rounded_program =
    round_operands(with_policy_passes<typename passes::set, pass_name::fused, passes::fused>());

/// The fused step program for a CUDA device, after the pass `sum_parts_together`.
template <class passes>
inline constexpr program summed_program =
    sum_parts_together(with_policy_passes<typename passes::set, pass_name::fused, passes::fused>());

/// Whether `passes` are those of a step program.
template <class passes> concept of_step = requires { passes::updated; };
/// Whether `passes` are those of another entry, in a trainer whose step keeps compute copies.
template <class passes> concept of_keeping_trainer = requires { requires passes::set::keeps_copies; };

/// The program before compute copies are kept. With precision::tf32 on a CUDA device, GEMMs round their operands
/// themselves.
template <class passes> constexpr decltype(auto) before_keeping() {
  if constexpr (passes::set::device::value.is_cuda && of_step<passes>) return (summed_program<passes>);
  else if constexpr (passes::set::precision::value.tf32 && !passes::set::device::value.is_cuda)
    return (rounded_program<passes>);
  else return with_policy_passes<typename passes::set, pass_name::fused, passes::fused>();
}

/// Whether a policy's pass follows the library's pass `predecessor`.
template <class passes, pass_name predecessor>
inline constexpr bool has_policy_pass = own_passes<typename passes::set::in_order>::template follow<predecessor>;

/// Whether the policies let an entry program keep compute copies. The step decides for all entries
/// (`entries::keeps_copies`). A policy's pass that follows `sharded` could insert a change of a parameter after the
/// write of its copy, so with such a pass, no copies are kept.
template <class passes> constexpr bool may_keep_copies() {
  constexpr auto const& precision = passes::set::precision::value;
  if (!precision.masters || precision.master == precision.compute) return false;
  return !has_policy_pass<passes, pass_name::sharded> && (of_step<passes> || of_keeping_trainer<passes>);
}
/// Whether the entry program keeps its compute copies.
template <class passes>
inline constexpr bool keeps_copies = [] {
  if constexpr (may_keep_copies<passes>()) return can_keep_copies(before_keeping<passes>());
  else return false;
}();

/// The program `before_keeping`, with kept compute copies.
template <class passes>
inline constexpr program kept_program = keep_copies_for(before_keeping<passes>(), passes::set::parallelism::value,
                                                        passes::set::device::value.is_cuda);

/// The program before it is partitioned over ranks.
template <class passes> constexpr decltype(auto) before_partition() {
  if constexpr (keeps_copies<passes>) return (kept_program<passes>);
  else return before_keeping<passes>();
}

// The programs between passes. A pass that does not apply is skipped, which saves the compilers a copy of the program:
// they compute the constant with the result of a pass only if this constant is used.

/// The program before mixed precision.
template <class passes> constexpr decltype(auto) before_cast() {
  constexpr bool accumulates = passes::set::accumulation::value.micro_batches != 1;
  if constexpr (!accumulates && !has_policy_pass<passes, pass_name::accumulated>) return passes::divided();
  else return with_policy_passes<typename passes::set, pass_name::accumulated, passes::accumulated>();
}

/// The program after mixed precision and the policies' passes that follow it.
template <class passes> constexpr decltype(auto) after_cast() {
  // A program that `before_cast` returns by value comes from a policy's pass, which runs again in each call.
  if constexpr (!has_policy_pass<passes, pass_name::cast> && std::is_reference_v<decltype(passes::before_cast())>) {
    if constexpr (!needs_casts(passes::before_cast(), passes::set::precision::value)) return passes::before_cast();
    else return (passes::cast);
  } else {
    return with_policy_passes<typename passes::set, pass_name::cast, passes::cast>();
  }
}

/// The program before fusion.
template <class passes, node_set dropped> constexpr decltype(auto) before_fusion() {
  constexpr auto const& checkpointing = passes::set::checkpointing::value;
  constexpr bool keeps_all = !checkpointing.recomputes && !checkpointing.by_operation && dropped == node_set{};
  if constexpr (keeps_all && !has_policy_pass<passes, pass_name::recomputed>) return passes::before_recomputation();
  else return with_policy_passes<typename passes::set, pass_name::recomputed, passes::recomputed>();
}

/// The program before values share bytes. `distributed`: whether the program is partitioned.
template <class passes, bool distributed> constexpr decltype(auto) before_sharing() {
  if constexpr (!distributed && !has_policy_pass<passes, pass_name::sharded>) return before_partition<passes>();
  else return with_policy_passes<typename passes::set, pass_name::sharded, passes::sharded>();
}

} // namespace detail

/// The passes of the step program before differentiation. `built` is the program before any pass; each other constant
/// is the result of a pass. `source`: a type with a static `build()`, which returns the forward program, and the member
/// types `policies` and `optimizer`. If `source` also has the member type `device`, policies with `only_with_kernels`
/// choose only ops with a kernel for this device.
template <class source> struct passes_before_gradients {
  using set = typename source::policies;
  static constexpr decltype(auto) built = source::build();
  static constexpr program selected = select_attention(with_policy_passes<set, pass_name::built, built>(),
                                                       set::attention::value, detail::missing_for_attention<source>());
  static constexpr program without_dead_code =
      dead_code_elimination(with_policy_passes<set, pass_name::selected, selected>());
  /// The program of one rank of a tensor group; without tensor parallelism, the result of the previous pass.
  static constexpr decltype(auto) divided() { return detail::divided<passes_before_gradients>(); }
  static constexpr program accumulated = accumulate_over(divided(), set::accumulation::value);
  /// The program before mixed precision.
  static constexpr decltype(auto) before_cast() { return detail::before_cast<passes_before_gradients>(); }
  static constexpr program cast = mixed_precision(before_cast(), set::precision::value, set::casts_biases);
};

namespace detail {

/// The program to differentiate.
template <class passes> constexpr decltype(auto) before_gradients() { return after_cast<passes>(); }

/// Whether the gradient rules of the program's ops are constant expressions.
template <class passes> concept constant_gradients = requires {
  typename std::bool_constant<(
      static_cast<void>(differentiate(before_gradients<passes>(), passes::set::precision::value.loss_scale)), true)>;
};

template <class passes> constexpr program differentiate_or_refuse() {
  if constexpr (constant_gradients<passes>) {
    program out = differentiate(before_gradients<passes>(), passes::set::precision::value.loss_scale);
    join_adjacent_slices(out);
    return out;
  }
  program out = passes::cast;
  out.fail(diagnosis_with<refusals::gradient_is_not_constant>());
  return out;
}

/// Whether the optimizer's update rule, if it has one, is a constant expression for every trained parameter.
template <class passes, class optimizer> concept constant_update = !has_update_rule<optimizer> || requires {
  typename std::bool_constant<(static_cast<void>(update<optimizer>(passes::before_update())), true)>;
};

template <class passes, class optimizer> constexpr program update_or_refuse() {
  if constexpr (constant_update<passes, optimizer>)
    return update<optimizer>(passes::before_update(), passes::set::checkpointing::value.recomputes);
  program out = passes::before_update();
  out.fail(diagnosis_with<refusals::update_is_not_constant>());
  return out;
}

} // namespace detail

/// The passes of the step program up to and including the optimizer step; each constant except `built` is the result of
/// a pass.
template <class source> struct passes_to_update : passes_before_gradients<source> {
  using before = passes_before_gradients<source>;
  using typename before::set;
  static constexpr program differentiated = detail::differentiate_or_refuse<before>();
  /// The program before the optimizer step is added.
  static constexpr decltype(auto) before_update() {
    return with_policy_passes<set, pass_name::differentiated, differentiated>();
  }
  static constexpr program updated = detail::update_or_refuse<passes_to_update, typename source::optimizer>();
  /// The program before activation checkpointing.
  static constexpr decltype(auto) before_recomputation() {
    return with_policy_passes<set, pass_name::updated, updated>();
  }
};

/// All passes of the step program; each constant of type `program` except `built` is the result of a pass. `dropped`:
/// the nodes that the backward pass recomputes because of checkpoint::budget.
template <class source, node_set dropped> struct passes_with_dropped : passes_to_update<source> {
  using before = passes_before_gradients<source>;
  using to_update = passes_to_update<source>;
  using typename before::set;
  static constexpr program recomputed =
      recompute(to_update::before_recomputation(), set::checkpointing::value, dropped);
  /// The program before fusion.
  static constexpr decltype(auto) before_fusion() { return detail::before_fusion<passes_with_dropped, dropped>(); }
  static constexpr program fused =
      fuse(before_fusion(), set::fusion::value, detail::missing_for_fusion<source, passes_with_dropped>());
  /// Whether compute copies keep their bytes between runs.
  static constexpr bool keeps_copies = detail::keeps_copies<passes_with_dropped>;
  static constexpr program sharded =
      detail::keep_and_partition(detail::before_keeping<passes_with_dropped>(), keeps_copies, set::parallelism::value,
                                 set::device::value.is_cuda, set::parallelism::value);
  /// The program before values share bytes.
  static constexpr decltype(auto) before_sharing() {
    return detail::before_sharing<passes_with_dropped, set::parallelism::value.distributed>();
  }
  static constexpr program final = detail::share_bytes(before_sharing(), set::device::value.is_cuda);

  /// Calls f(name, program) with the results of the main passes and of policies' passes, in order. `name`: the name of
  /// the result or of the policy. Both arguments are valid only during the call.
  template <class function> static void for_each(function const& f) {
    report_policy_passes<set, pass_name::built>(f, before::built);
    report_policy_passes<set, pass_name::selected>(f, before::selected);
    report_policy_passes<set, pass_name::without_dead_code>(f, before::without_dead_code);
    if constexpr (set::parallelism::value.tensor > 1) f("divided", before::divided());
    report_policy_passes<set, pass_name::accumulated>(f, before::accumulated);
    report_policy_passes<set, pass_name::cast>(f, before::cast);
    report_policy_passes<set, pass_name::differentiated>(f, to_update::differentiated);
    report_policy_passes<set, pass_name::updated>(f, to_update::updated);
    report_policy_passes<set, pass_name::recomputed>(f, recomputed);
    report_policy_passes<set, pass_name::fused>(f, fused);
    if constexpr (set::device::value.is_cuda) f("sums together", detail::before_keeping<passes_with_dropped>());
    if constexpr (keeps_copies) f("copies kept", detail::before_partition<passes_with_dropped>());
    report_policy_passes<set, pass_name::sharded>(f, sharded);
    f("coalesced", coalesce(before_sharing())), f("in place", final);
  }
};

namespace detail {

/// The parallelism of an entry program without gradients. Such a program needs `partition` only to gather sharded
/// parameters, so it is distributed only if there is more than one shard.
constexpr slot_of::parallelism without_gradients(slot_of::parallelism p) {
  p.distributed = p.shards > 1;
  return p;
}

/// Chooses the attention algorithm of an entry program without gradients. Without tensor parallelism, also removes or
/// replaces the program's training-only ops. With tensor parallelism (`divides`), a later pass does this, after the
/// layers are divided, so that all entry programs divide the same layers.
constexpr program select_without_gradients(program const& built, bool divides, slot_of::attention const& attention,
                                           op_set const& missing) {
  return divides ? select_attention(built, attention, missing)
                 : select_attention(remove_training_ops(built), attention, missing);
}

/// One rank's entry program without gradients, after its training-only ops are removed or replaced.
template <class passes>
inline constexpr program divided_evaluation = dead_code_elimination(remove_training_ops(divided_program<passes>));

template <class passes> constexpr decltype(auto) divided_without_training_ops() {
  if constexpr (passes::set::parallelism::value.tensor > 1) return (divided_evaluation<passes>);
  else return divided<passes>();
}

} // namespace detail

/// All passes of an entry program without gradients (evaluate, predict, generate). `built` is the program before any
/// pass; each other constant of type `program` is the result of a pass. `source` as in `passes_before_gradients`, but
/// without `optimizer`.
template <class source> struct forward_passes {
  using set = typename source::policies;
  static constexpr decltype(auto) built = source::build();
  static constexpr program selected = detail::select_without_gradients(
      with_policy_passes<set, pass_name::built, built>(), set::parallelism::value.tensor > 1, set::attention::value,
      detail::missing_for_attention<source>());
  static constexpr program without_dead_code =
      dead_code_elimination(with_policy_passes<set, pass_name::selected, selected>());
  /// The program of one rank of a tensor group; without tensor parallelism, the result of the previous pass.
  static constexpr decltype(auto) divided() { return detail::divided_without_training_ops<forward_passes>(); }
  /// The program before mixed precision.
  static constexpr decltype(auto) before_cast() { return divided(); }
  static constexpr program cast = mixed_precision(before_cast(), set::precision::value, set::casts_biases);
  /// The program before fusion.
  static constexpr decltype(auto) before_fusion() { return detail::after_cast<forward_passes>(); }
  static constexpr program fused =
      fuse(before_fusion(), set::fusion::value, detail::missing_for_fusion<source, forward_passes>());
  /// Whether the pass `partition` changes the program.
  static constexpr bool is_partitioned = detail::without_gradients(set::parallelism::value).distributed;
  static constexpr program sharded = detail::keep_and_partition(
      detail::before_keeping<forward_passes>(), detail::may_keep_copies<forward_passes>(), set::parallelism::value,
      set::device::value.is_cuda, detail::without_gradients(set::parallelism::value));
  /// The program before values share bytes.
  static constexpr decltype(auto) before_sharing() { return detail::before_sharing<forward_passes, is_partitioned>(); }
  static constexpr program final = detail::share_bytes(before_sharing(), set::device::value.is_cuda);

  /// Calls f(name, program) with the results of the main passes and of policies' passes, in order. `name`: the name of
  /// the result or of the policy. Both arguments are valid only during the call.
  template <class function> static void for_each(function const& f) {
    report_policy_passes<set, pass_name::built>(f, built);
    report_policy_passes<set, pass_name::selected>(f, selected);
    report_policy_passes<set, pass_name::without_dead_code>(f, without_dead_code);
    if constexpr (set::parallelism::value.tensor > 1) f("divided", divided());
    report_policy_passes<set, pass_name::cast>(f, cast);
    report_policy_passes<set, pass_name::fused>(f, fused);
    if constexpr (detail::keeps_copies<forward_passes>) f("copies kept", detail::before_partition<forward_passes>());
    report_policy_passes<set, pass_name::sharded>(f, sharded);
    f("coalesced", coalesce(before_sharing())), f("in place", final);
  }
};

} // namespace constrain
