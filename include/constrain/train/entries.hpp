#pragma once

#include "constrain/pass/cost.hpp"
#include "constrain/train/entry_source.hpp"
#include "constrain/train/parameter_table.hpp"
#include "constrain/train/port_facts.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The error if `peak` exceeds the limit of checkpoint::budget; no error otherwise. `of_step`: the step's
/// `bytes_of_step`.
constexpr diagnosis check_limit(slot_of::checkpointing const& checkpointing, bytes peak, bytes of_step) {
  if (!checkpointing.searches() || peak <= checkpointing.limit) return {};
  auto const limit = checkpointing.limit.count(), excess = peak.count() - limit;
  return of_step <= checkpointing.limit
             ? diagnosis_with<refusals::limit_is_too_small_without_gradients>(0, 0, limit, excess)
             : diagnosis_with<refusals::limit_is_too_small>(0, 0, limit, excess);
}

/// The arena offset at which the parameters of `p` end. `where`: the memory layout of `p`.
constexpr std::int64_t end_of_parameters(program const& p, memory_layout const& where) {
  std::int64_t end = 0;
  for (int v = 0; where.buffers.size() > 0 && v < p.values.size(); ++v)
    if (is_parameter(p.values[v].role)) end = largest(end, where.buffers[v].offset + where.buffers[v].size);
  return end;
}

} // namespace detail

/// A trainer's four entry programs (step, evaluate, predict, generate) after all passes, and constants of their plans.
/// The entries share one arena. Values that persist between runs (such as weights and optimizer states) come first;
/// every entry uses the memory after them for its own values.
template <class task_, class policy_set>
struct entries : port_facts<task_, step_passes<detail::step_source<task_, policy_set>>> {
  using task = task_;
  using policies = policy_set;
  using checked = entries; // `trainer` uses this name, so that a refused program is reported in fewer lines
  using target = typename policy_set::target;
  static constexpr dtype master = policy_set::precision::value.master;
  static constexpr dtype compute = policy_set::precision::value.compute;
  using real = arithmetic<storage<compute>>; // type of the logits returned to the caller

  using step_program = step_passes<detail::step_source<task, policy_set>>;
  /// Whether compute copies keep their bytes from one run of any entry to the next.
  static constexpr bool keeps_copies = step_program::keeps_copies;

  /// The model's program of one entry, before any pass.
  template <entry e> using source = typename detail::source_of_entry<task, policy_set, e>::type;
  using evaluate_program = forward_passes<source<entry::evaluate>>;
  using predict_program = forward_passes<source<entry::predict>>;
  using generate_program = forward_passes<source<entry::generate>>;

  using step = planned<step_program, void, target>;
  // This assertion is at class scope, so that instantiating the trainer type reports the error. Only the first failure
  // is reported.
  static_assert(sizeof(typename sound<step::failure.reason, step::failure>::type) > 0);
  using evaluate = planned<evaluate_program, step, target>;
  using predict = planned<predict_program, step, target>;
  using generate = planned<generate_program, step, target>;
  using casts_program = casts_passes<step_program>;
  /// The casts that bring the kept compute copies up to date after a change of parameters outside of `step`; `step`
  /// itself if no copies are kept.
  using casts = detail::plan_of_casts<step_program, step>;
  /// The first failure of an entry other than `step`; none if `step` is refused.
  static constexpr diagnosis failure_without_gradients = !step::failure.ok()       ? diagnosis{}
                                                         : !evaluate::failure.ok() ? evaluate::failure
                                                         : !predict::failure.ok()  ? predict::failure
                                                                                   : generate::failure;
  static_assert(sizeof(typename sound<failure_without_gradients.reason, failure_without_gradients>::type) > 0);

  /// Arena offset at which the values that persist between runs end.
  static constexpr std::int64_t persistent_end = step::where.persistent_end;
  // The largest arena offset at which an entry other than `step`, or `casts`, ends.
  static constexpr std::int64_t other_peak = detail::largest(evaluate::where.end, predict::where.end,
                                                             generate::where.end, keeps_copies ? casts::where.end : 0);
  /// Arena offset at which the buffers of all entries end.
  static constexpr std::int64_t buffers_end = other_peak > step::where.end ? other_peak : step::where.end;
  static_assert(sizeof(detail::needs_are_possible<target, step, evaluate, predict, generate>) > 0);
  /// Bytes of scratch memory, at the end of the arena.
  static constexpr std::int64_t scratch =
      detail::largest(device_plan_of<step, target>.scratch, device_plan_of<evaluate, target>.scratch,
                      device_plan_of<predict, target>.scratch, device_plan_of<generate, target>.scratch,
                      device_plan_of<casts, target>.scratch);
  /// The end of the arena, after all buffers: step parameters and scratch memory.
  static constexpr device_reserve reserve{target::parameter_bytes + scratch, target::alignment};
  /// How the trainer uses its memory on one rank; see `memory_plan` for the entries that each field covers.
  static constexpr memory_plan memory =
      step::failure.ok() ? memory_of(step_program::final, step::where, other_peak, reserve) : memory_plan{};
  /// The error if `memory.peak` exceeds the limit of checkpoint::budget. `trainer` reports this error.
  static constexpr diagnosis failure_of_limit =
      detail::check_limit(policy_set::checkpointing::value, step::failure.ok() ? memory.peak : bytes(0),
                          bytes(detail::bytes_of_step<step_program, target>()));
  static_assert(has_aligned_buffers(step::final, step::where, target::alignment) &&
                has_aligned_buffers(evaluate::final, evaluate::where, target::alignment) &&
                has_aligned_buffers(predict::final, predict::where, target::alignment) &&
                has_aligned_buffers(generate::final, generate::where, target::alignment));
  static_assert(!step::failure.ok() || (casts::failure.ok() && casts::where.persistent_end == persistent_end));
  static_assert(scratch == 0 || (memory.peak.count() - scratch) % target::alignment == 0);
  /// The work of one step on one rank; 0 if `step` is refused, because its extents could overflow the sums.
  static constexpr work_plan work =
      step::failure.ok()
          ? work_of(step_program::final, [](int node) { return device_plan_of<step, target>.steps[node].launches; })
          : work_plan{};
  static constexpr auto parameters =
      make_parameter_table<count_parameters(step_program::final)>(step_program::final, step::where);
  /// Number of ranks over which ZeRO shards a tensor; 1: not sharded.
  static constexpr std::int64_t shards = policy_set::parallelism::value.shards;
  /// Arena offset at which the parameters end.
  static constexpr std::int64_t parameters_end = detail::end_of_parameters(step_program::final, step::where);
  /// Elements of all parameters.
  static constexpr std::int64_t parameter_count = count_elements(parameters);

  /// Whether evaluation counts correct predictions. It does if the first labels are one class per row of logits.
  static constexpr bool counts_correct = evaluate::value.result("correct").elements > 0;
};

} // namespace constrain
