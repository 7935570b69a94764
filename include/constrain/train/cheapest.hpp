#pragma once

#include "constrain/base/formatted.hpp"
#include "constrain/base/printable.hpp"
#include "constrain/train/entries.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>

namespace constrain::inline CONSTRAIN_VARIANT {

template <class task, class... list> class trainer;

/// What the compiler knows of a strategy, a set of policies, before any kernel is compiled.
struct strategy_estimate {
  bytes peak;                   // of the step's plan: the peak of a trainer, unless another entry needs more
  double seconds = 0;           // of a step, about (`estimated_seconds` with `rates_of` the device)
  double tokens_per_second = 0; // of one rank, about
  bool fits = false;            // whether the peak is within the limit
};

namespace detail {

/// The estimate of a trainer of `task` with the policies `set`. Compile-time error: the program is refused.
template <class task, class set> struct estimated {
  using source = entry_source<task, set, entry::step>;
  using step = planned<step_passes<source>, void, typename set::target>;
  static_assert(sizeof(typename sound<step::failure.reason, step::failure>::type) > 0);
  static constexpr bytes peak{source::template bytes_of<step_passes<source>>()};
  static constexpr double seconds =
      estimated_seconds(step::final, rates_of<typename set::target>, set::precision::value.tf32);
  static constexpr double tokens =
      static_cast<double>(set::accumulation::value.micro_batches * task::sequences * task::tokens);

  static constexpr strategy_estimate within(bytes limit) { return {peak, seconds, tokens / seconds, peak <= limit}; }
};

/// A trainer of `task` with the policies `set`, and the peak of its plan.
template <class task, class set> struct trainer_of_set;
template <class task, class... list> struct trainer_of_set<task, policies<list...>> {
  using type = trainer<task, list...>;
};
template <class task, class set> inline constexpr bytes peak_of_all = entries<task, set>::memory.peak;

/// The fastest of the strategies that fit, except those with a bit in `left_out`; -1: none.
template <std::size_t size>
constexpr int fastest(std::array<strategy_estimate, size> const& table, std::uint64_t left_out) {
  int best = -1;
  for (std::size_t k = 0; k < size; ++k)
    if (table[k].fits && (left_out >> k & 1u) == 0 &&
        (best < 0 || table[k].tokens_per_second > table[static_cast<std::size_t>(best)].tokens_per_second))
      best = static_cast<int>(k);
  return best;
}

/// Returns `found`. Compile-time error: the smallest plan needs `missing` bytes more than `limit`.
template <bytes limit, bytes missing> constexpr int strategy_with_missing_bytes(int found) {
  static_assert(missing.count() <= 0,
                "cheapest: no strategy fits in the limit, the first of the two numbers of "
                "`strategy_with_missing_bytes`; the smallest plan needs the bytes of the second more: write strategies "
                "that save memory, such as ct::policies<ct::checkpoint::every<1>>, or a larger limit");
  return found;
}

/// The rows of a table of estimates as text, under a line of column names.
[[gnu::noinline, gnu::cold]] inline std::string estimates_text(strategy_estimate const* rows, std::string const* names,
                                                               int size, int chosen) {
  std::string text = formatted("  %-60s %12s %14s\n", "strategy", "MiB", "tokens/s, est.");
  for (int k = 0; k < size; ++k)
    text += formatted("%c %-60s %12.1f %14.0f%s\n", k == chosen ? '*' : ' ', printable(names[k]).c_str(),
                      rows[k].peak.mebibytes(), rows[k].tokens_per_second, rows[k].fits ? "" : "  does not fit");
  return text;
}

/// The estimates of several strategies.
template <bytes limit, class task, class... sets> struct estimates {
  template <int k> using set_at = std::tuple_element_t<static_cast<std::size_t>(k), std::tuple<sets...>>;
  static constexpr std::array<strategy_estimate, sizeof...(sets)> table{estimated<task, sets>::within(limit)...};

  /// The index of the fastest strategy that also fits with the plans of its other entries; -1: there is none.
  template <std::uint64_t left_out = 0> static constexpr int choose() {
    constexpr int found = fastest(table, left_out);
    if constexpr (found < 0) return -1;
    else if constexpr (peak_of_all<task, set_at<found>> <= limit) return found;
    else return choose<(left_out | std::uint64_t{1} << found)>();
  }
  /// The bytes that the smallest plan needs, at least one more than the limit: another entry may need them.
  static constexpr bytes least() {
    bytes out = table[0].peak;
    for (auto const& row : table) out = row.peak < out ? row.peak : out;
    return out > limit ? out : limit + bytes(1);
  }
  static constexpr int choose_or_refuse() {
    constexpr int found = choose();
    if constexpr (found >= 0) return found;
    else return strategy_with_missing_bytes<limit, least() - limit>(0);
  }
};

} // namespace detail

/// The fastest of several strategies whose trainer needs at most `limit` bytes, by a cost model: the compiler makes the
/// plan of every strategy's step, and no kernel. `sets`: at most 64 `ct::policies`. Compile-time error, with the bytes
/// that are missing: no strategy fits.
///
///     using choice = ct::cheapest<ct::gibibytes(4), task, ct::policies<>, ct::policies<ct::checkpoint::every<1>>,
///                                 ct::policies<ct::precision::bf16>>;
///     choice::trainer t;
template <bytes limit, class task, class... sets> struct cheapest {
  static_assert(sizeof...(sets) >= 1 && sizeof...(sets) <= 64,
                "cheapest: there are no strategies, or more than 64; write ct::policies<...> for each");
  /// The estimate of every strategy, in order.
  static constexpr std::array<strategy_estimate, sizeof...(sets)> table =
      detail::estimates<limit, task, sets...>::table;
  /// The index of the chosen strategy.
  static constexpr int index = detail::estimates<limit, task, sets...>::choose_or_refuse();
  /// Its policies, and its trainer.
  using policies = std::tuple_element_t<static_cast<std::size_t>(index), std::tuple<sets...>>;
  using trainer = typename detail::trainer_of_set<task, policies>::type;

  /// The table as text, with a star before the chosen strategy.
  static std::string text() {
    std::string const names[] = {sets::name()...};
    return detail::estimates_text(table.data(), names, static_cast<int>(sizeof...(sets)), index);
  }
};

} // namespace constrain
