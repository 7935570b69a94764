#pragma once

#include "constrain/base/formatted.hpp"
#include "constrain/base/printable.hpp"
#include "constrain/train/entries.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

template <class task, class... list> class trainer;

/// A compile-time estimate of a strategy (a set of policies). No kernel is compiled. The estimate leaves out the
/// transfers between ranks and the time that launch::graph saves.
struct strategy_estimate {
  bytes peak;                   // the trainer's peak memory, over all entries
  double seconds = 0;           // estimate for a step (`estimated_seconds` with `rates_of` the device)
  double tokens_per_second = 0; // estimate for one rank: ranks of a tensor group share the tokens of their batches
  bool fits = false;            // whether the peak is within the limits of the caller and of checkpoint::budget
};

namespace detail {

/// Returns `index`. Compile-time error unless `ct::rates_of<tag>` has the rates that an estimate needs (`is_rated`).
template <class tag, bool is_rated> constexpr int with_rates_of(int index) {
  static_assert(is_rated,
                "cheapest, advise: ct::rates_of for the device's kernel tag lacks a rate that the strategy needs, "
                "or has one that is out of range; specialize ct::rates_of for the tag, with every rate from 1 to 1e30, "
                "and .launch from 0 to 1e30");
  return index;
}

/// The smaller of `limit` and the limit of checkpoint::budget; `limit` if `set` does not have this policy. A negative
/// `limit` counts as 0.
template <class set> constexpr bytes limit_with_budget(bytes limit) {
  if (limit < bytes(0)) return {};
  constexpr auto const& checkpointing = set::checkpointing::value;
  return checkpointing.searches() && checkpointing.limit < limit ? checkpointing.limit : limit;
}

/// The estimate for a trainer of `task` with the policies `set`. Compile-time error if the program is refused.
template <class task, class set> struct estimated {
  using step = planned<step_passes<step_source<task, set>>, void, typename set::target>;
  static constexpr bytes peak = [] {
    constexpr bytes of_trainer{bytes_of_trainer<task, set>()};
    if constexpr (of_trainer >= bytes(0)) return of_trainer;
    else return entries<task, set>::memory.peak; // reports why a program is refused
  }();
  static constexpr device_rates rates = rates_of<typename set::target>;
  static constexpr bool tf32 = set::precision::value.tf32, is_rated = has_rates(step::final, rates, tf32);
  // 1 if the program is refused, or if a rate is missing or out of range; `sound` or `with_rates_of` reports the error.
  static constexpr double seconds = step::failure.ok() && is_rated ? estimated_seconds(step::final, rates, tf32) : 1;
  // The number of ranks that train on the same batches. (A number below 1 is refused elsewhere.)
  static constexpr int sharing_ranks = std::max(set::parallelism::value.tensor, 1);
  // Tokens in a step of one rank, divided by the number of ranks that share them.
  static constexpr double tokens =
      static_cast<double>(set::accumulation::value.micro_batches * task::sequences * task::tokens) / sharing_ranks;

  /// The estimate, with `fits` for a limit of `limit` bytes.
  static constexpr strategy_estimate within(bytes limit) {
    return {peak, seconds, tokens / seconds, peak <= limit_with_budget<set>(limit)};
  }
};

/// Whether a type is `ct::policies<...>`.
template <class> inline constexpr bool is_set = false;
template <class... list> inline constexpr bool is_set<policies<list...>> = true;

/// A trainer of `task` with the policies `set`.
template <class task, class set> struct trainer_of_set;
template <class task, class... list> struct trainer_of_set<task, policies<list...>> {
  using type = trainer<task, list...>;
};

/// The index of the fastest strategy that fits, out of `size` strategies; -1: none fits.
constexpr int fastest(strategy_estimate const* table, int size) {
  int best = -1;
  for (int k = 0; k < size; ++k)
    if (table[k].fits && (best < 0 || table[k].tokens_per_second > table[best].tokens_per_second)) best = k;
  return best;
}

/// Returns `strategy`. Compile-time error if `missing` is above 0. `limit`, `missing`: the limit of the strategy
/// `estimates::nearest()`, and the result of `estimates::missing`; template arguments, which compilers print with the
/// error.
template <bytes limit, bytes missing> constexpr int strategy_with_missing_bytes(int strategy) {
  static_assert(missing.count() <= 0,
                "cheapest: no strategy fits in the limit; the template arguments of `strategy_with_missing_bytes` are "
                "the limit and the bytes that the trainer of the nearest strategy needs beyond it; add strategies that "
                "save memory, such as ct::policies<ct::checkpoint::every<1>>, or write a larger limit");
  return strategy;
}

/// The rows of a table of estimates as text, under a line of column names. `rows`, `names`: arrays of `size` elements.
/// `chosen`: the index of the row that gets a star; -1: none.
[[gnu::noinline, gnu::cold]] inline std::string estimates_text(strategy_estimate const* rows, std::string const* names,
                                                               int size, int chosen) {
  int width = 60; // of the column of names, at least 60
  for (int k = 0; k < size; ++k) width = std::max(width, static_cast<int>(printable(names[k]).size()));
  std::string text = formatted("  %-*s %12s %14s\n", width, "strategy", "MiB", "tokens/s, est.");
  for (int k = 0; k < size; ++k)
    text += formatted("%c %-*s %12.1f %14.0f%s\n", k == chosen ? '*' : ' ', width, printable(names[k]).c_str(),
                      rows[k].peak.mebibytes(), rows[k].tokens_per_second, rows[k].fits ? "" : "  does not fit");
  return text;
}

/// The estimates of several strategies.
template <bytes limit, class task, class... sets> struct estimates {
  template <int k> using set_at = std::tuple_element_t<static_cast<std::size_t>(k), std::tuple<sets...>>;
  static constexpr std::array<strategy_estimate, sizeof...(sets)> table{estimated<task, sets>::within(limit)...};

  static constexpr std::array<bytes, sizeof...(sets)> limits{limit_with_budget<sets>(limit)...};
  /// The index of the strategy whose peak exceeds its limit by the fewest bytes, or is below it by the most.
  static constexpr std::size_t nearest() {
    std::size_t nearest_index = 0;
    for (std::size_t k = 1; k < table.size(); ++k)
      if (table[k].peak - limits[k] < table[nearest_index].peak - limits[nearest_index]) nearest_index = k;
    return nearest_index;
  }
  /// The bytes by which the peak of strategy `nearest()` exceeds its limit.
  static constexpr bytes missing() { return table[nearest()].peak - limits[nearest()]; }
  /// The index of the fastest strategy that fits. Compile-time error if no strategy fits, or if a rate is missing or
  /// out of range.
  static constexpr int choose_or_refuse() {
    if constexpr (!(estimated<task, sets>::is_rated && ...))
      return (with_rates_of<typename sets::target, estimated<task, sets>::is_rated>(0) + ...);
    else if constexpr (constexpr int strategy = fastest(table.data(), static_cast<int>(table.size())); strategy >= 0)
      return strategy;
    else return strategy_with_missing_bytes<limits[nearest()], missing()>(0);
  }
};

/// `estimates`, for arguments that may be invalid. If a strategy is not `ct::policies<...>`, or if there are not 1 to
/// 64 strategies, `cheapest` reports the error, and the estimates are for the default policies. If `task` is not a
/// task, the estimates report the error.
template <bytes limit, class task, class... sets> struct checked_estimates {
  static constexpr bool are_sets = sizeof...(sets) >= 1 && sizeof...(sets) <= 64 && (is_set<sets> && ...);
  static constexpr bool is_valid = are_sets && is_task<task>;
  using task_or_none = typename task_or_refusal<task, refusals::cheapest_argument_is_not_a_task>::task;
  template <bool> struct of_sets { using type = estimates<limit, task, sets...>; };
  using of_default = std::type_identity<estimates<limit, task_or_none, policies<>>>;
  using type = typename std::conditional_t<is_valid, of_sets<true>, of_default>::type;

  /// The index of the chosen strategy; 0 if an argument is not valid.
  static constexpr int choose() {
    if constexpr (is_valid) return type::choose_or_refuse();
    else return 0;
  }
};

} // namespace detail

/// Chooses, among the strategies whose trainers need at most `limit` bytes on each rank, the strategy that a cost model
/// estimates to be the fastest. A trainer with checkpoint::budget must also stay within its budget. The compiler makes
/// the plans of every strategy's trainer, but compiles no kernel. `sets`: 1 to 64 `ct::policies`. If no strategy fits,
/// a compile-time error states by how many bytes the nearest strategy exceeds its limit. It is also a compile-time
/// error if a strategy needs a device rate (device/rates.hpp) that is unknown or out of range.
///
/// The fastest strategy is the one with the most tokens per second for each rank, where the ranks of a tensor group
/// share their tokens (`strategy_estimate::tokens_per_second`). The estimate leaves out the time that launch::graph
/// saves, and the transfers between ranks, so strategies for several processes are slower than estimated.
///
///     using choice = ct::cheapest<ct::gibibytes(4), task, ct::policies<>, ct::policies<ct::checkpoint::every<1>>,
///                                 ct::policies<ct::precision::bf16>>;
///     choice::trainer t;
template <bytes limit, class task, class... sets> struct cheapest {
private:
  static_assert(detail::checked_estimates<limit, task, sets...>::are_sets,
                "cheapest: there must be 1 to 64 strategies; write each as ct::policies<...>");
  using estimates = typename detail::checked_estimates<limit, task, sets...>::type;

public:
  /// The estimate of every strategy, in order.
  static constexpr auto table = estimates::table;
  /// The index of the chosen strategy.
  static constexpr int index = detail::checked_estimates<limit, task, sets...>::choose();
  /// The policies of the chosen strategy.
  using policies = typename estimates::template set_at<index>;
  /// The trainer with these policies.
  using trainer = typename detail::trainer_of_set<task, policies>::type;

  /// The table as text, with a star before the chosen strategy.
  static std::string text() {
    std::string const names[] = {sets::name()...};
    return detail::estimates_text(table.data(), names, static_cast<int>(sizeof...(sets)), index);
  }
};

} // namespace constrain
