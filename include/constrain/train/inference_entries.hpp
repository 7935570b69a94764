#pragma once

#include "constrain/train/entries.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// A set of policies without master weights: parameters are stored in the type in which kernels read them.
template <class policy_set> struct without_masters : policy_set {
  /// The precision policy without master weights.
  struct precision : policy_set::precision {
    static constexpr slot_of::precision value = [] {
      auto precision = policy_set::precision::value;
      precision.masters = false;
      return precision;
    }();
  };
};

} // namespace detail

/// The entry programs of an inference object (evaluate, predict, generate) after all passes, and constants of their
/// plans. As in constrain::entries, the entries share one arena, and the parameters come first.
template <class task_, class policy_set>
struct inference_entries
    : port_facts<task_,
                 forward_passes<detail::entry_source<task_, detail::without_masters<policy_set>, entry::evaluate>>> {
  using task = task_;
  using policies = detail::without_masters<policy_set>;
  using target = typename policy_set::target;
  static constexpr dtype compute = policy_set::precision::value.compute;
  using real = arithmetic<storage<compute>>;  // type of the logits returned to the caller
  static constexpr bool keeps_copies = false; // there are no compute copies

  /// All passes of an entry.
  template <entry e> using passes = forward_passes<detail::entry_source<task, policies, e>>;
  using evaluate_program = passes<entry::evaluate>;
  using predict_program = passes<entry::predict>;
  using generate_program = passes<entry::generate>;
  /// The shape of the logits of `predict`; the logits of `evaluate` may have a different number of sequences.
  static constexpr shape logits = predict_program::built.values[predict_program::built.result("logits").value].shape;
  using evaluate = planned<evaluate_program, void, target>;
  using predict = planned<predict_program, evaluate, target>;
  using generate = planned<generate_program, evaluate, target>;
  /// The first failure of an entry.
  static constexpr diagnosis failure = !evaluate::failure.ok()  ? evaluate::failure
                                       : !predict::failure.ok() ? predict::failure
                                                                : generate::failure;
  // The assertions are at class scope, so that instantiating the type reports the first failure.
  static_assert(sizeof(typename sound<failure.reason, failure>::type) > 0);
  static_assert(sizeof(detail::needs_are_possible<target, evaluate, predict, generate>) > 0);

  /// Arena offset at which the parameters and settings end.
  static constexpr std::int64_t persistent_end = evaluate::where.persistent_end;
  /// Arena offset at which the buffers of all entries end.
  static constexpr std::int64_t buffers_end =
      detail::largest(evaluate::where.end, predict::where.end, generate::where.end);
  /// Bytes of scratch memory, at the end of the arena.
  static constexpr std::int64_t scratch =
      detail::largest(device_plan_of<evaluate, target>.scratch, device_plan_of<predict, target>.scratch,
                      device_plan_of<generate, target>.scratch);
  /// How the inference object uses its memory on one rank; see `memory_plan` for the entries that each field covers.
  static constexpr memory_plan memory = failure.ok() ? memory_of(evaluate_program::final, evaluate::where, buffers_end,
                                                                 {target::parameter_bytes + scratch, target::alignment})
                                                     : memory_plan{};
  /// The work of evaluating one micro-batch on one rank.
  static constexpr work_plan work = work_of(evaluate_program::final, [](int node) {
    return failure.ok() ? device_plan_of<evaluate, target>.steps[node].launches : 1;
  });
  static constexpr auto parameters =
      make_parameter_table<count_parameters(evaluate_program::final)>(evaluate_program::final, evaluate::where);
  /// Elements of all parameters.
  static constexpr std::int64_t parameter_count = count_elements(parameters);
  /// Whether the first labels are one class per row of logits, so that evaluation counts correct predictions.
  static constexpr bool counts_correct = evaluate::value.result("correct").elements > 0;
};

} // namespace constrain
