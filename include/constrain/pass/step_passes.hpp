#pragma once

#include "constrain/pass/pipeline.hpp"
#include "constrain/pass/recomputation_search.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// For checkpoint::budget: `bytes<dropped>` is the number of bytes that a trainer needs for its step if the backward
/// pass recomputes the nodes in `dropped`; -1 if a pass refuses the program.
template <class source> struct recomputation_plans {
  using without_recomputation = passes_with_dropped<source, node_set{}>;
  /// The step program before activation checkpointing.
  static constexpr decltype(auto) program() { return passes_to_update<source>::before_recomputation(); }
  template <node_set dropped>
  static constexpr std::int64_t bytes =
      source::template bytes_of_candidate<passes_with_dropped<source, dropped>, without_recomputation>();
};

/// The estimates of a search over `plans`.
template <class plans> inline constexpr recomputation_estimate estimate_of{plans::program()};

/// State `index` of a search over `plans` (recomputation_search.hpp). Each state is a separate constant, because
/// compilers limit the work of one constant expression.
template <class plans, std::int64_t limit, int index> struct search_state {
  using before = search_state<plans, limit, index - 1>;
  static constexpr std::int64_t bytes = plans::template bytes<estimate_of<plans>.nodes(before::value.candidate)>;
  static constexpr recomputation_search value =
      before::value.after(estimate_of<plans>, bytes < 0 ? recomputation_search::refused : bytes, limit);
};
template <class plans, std::int64_t limit> struct search_state<plans, limit, 0> {
  static constexpr recomputation_search value{};
};

/// The nodes that the search chooses to drop. Precondition: no state before `index` is done.
template <class plans, std::int64_t limit, int index = 1> constexpr node_set chosen_nodes() {
  if constexpr (constexpr auto const& state = search_state<plans, limit, index>::value; state.is_done)
    return estimate_of<plans>.nodes(state.choice());
  else return chosen_nodes<plans, limit, index + 1>();
}

/// The nodes that the backward pass recomputes because of checkpoint::budget; empty for other policies and for a
/// refused program.
template <class source> constexpr node_set dropped_nodes() {
  constexpr auto const& checkpointing = source::policies::checkpointing::value;
  if constexpr (checkpointing.searches()) {
    using plans = recomputation_plans<source>;
    if constexpr (plans::program().failure.ok()) return chosen_nodes<plans, checkpointing.limit.count()>();
  }
  return {};
}

} // namespace detail

/// All passes of the step program; each constant of type `program` except `built`, the program that the model writes,
/// is the result of a pass. `source`: as in `passes_before_gradients`. With checkpoint::budget, it also has a function
/// template `bytes_of_candidate<passes, without_recomputation>()`, which returns the bytes that a trainer with `passes`
/// needs for its step, or -1 if one of `passes` refuses the program. `without_recomputation`: the passes that recompute
/// nothing.
template <class source> struct step_passes : passes_with_dropped<source, detail::dropped_nodes<source>()> {};

namespace detail {

/// The casts of the copies that `keep_copies` keeps in `p`, after the passes that follow `keep_copies`.
constexpr program final_casts(program const& p, slot_of::parallelism const& parallelism, bool is_cuda) {
  return share_bytes(partition(casts_of_kept_copies(keep_copies_for(p, parallelism, is_cuda)), parallelism), is_cuda);
}

} // namespace detail

/// The passes of the program that brings the kept compute copies of `step`, the passes of a step program, up to date.
template <class step> struct casts_passes {
  using set = typename step::set;
  static constexpr program final =
      detail::final_casts(detail::before_keeping<step>(), set::parallelism::value, set::device::value.is_cuda);
};

} // namespace constrain
