#pragma once

#include "constrain/train/entries.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Returns `batch`. Compile-time error if `missing` is above 0: one sequence needs `missing` bytes more than `limit`.
template <bytes limit, bytes missing> constexpr micro_batch with_missing_bytes(micro_batch batch) {
  static_assert(missing.count() <= 0,
                "largest_batch: not even one sequence fits in the limit; `with_missing_bytes` shows the limit and "
                "the bytes that one sequence needs beyond it; add policies that save memory, such as "
                "checkpoint::every<1>, or write a larger limit");
  return batch;
}

/// Bytes that a trainer needs for its step: the trainer's peak, unless another entry needs more. -1 if the program is
/// refused.
template <class task, class policy_set> constexpr bytes peak_of_step() {
  using source = step_source<task, policy_set>;
  return bytes(source::template bytes_of<step_passes<source>>());
}

/// The task of a model with micro-batches of `sequences` sequences.
template <auto model, class objective, int sequences>
using task_of_sequences = task<model, objective, micro_batch{.sequences = sequences}>;

/// The peak of a trainer's step, as a function of the number of sequences.
template <auto model, class objective, class policy_set> struct step_peaks {
  template <int sequences>
  static constexpr bytes peak = peak_of_step<task_of_sequences<model, objective, sequences>, policy_set>();
};
/// The peak over all entries of a trainer, as a function of the number of sequences.
template <auto model, class objective, class policy_set> struct entry_peaks {
  template <int sequences>
  static constexpr bytes peak = entries<task_of_sequences<model, objective, sequences>, policy_set>::memory.peak;
};

inline constexpr int maximum_sequences = 1 << 16; // the most sequences that `largest_batch` tries

/// Linear interpolation or extrapolation: the number of sequences at which the peak is `limit` bytes, if the peak is
/// `at_low` bytes at `low` sequences and rises by `rise` bytes per `sequences` sequences. The result is clamped to be
/// above `low` and below `high`.
constexpr int interpolated(int low, int high, bytes at_low, bytes limit, bytes rise, int sequences) {
  double const increase = (limit - at_low) / (rise.count() > 0 ? rise : bytes(1)) * sequences;
  return increase < 1 ? low + 1 : increase < high - 1 - low ? low + static_cast<int>(increase) : high - 1;
}

/// The next number of sequences to try, above `low` and below `high`. The peak is nearly linear in this number, so the
/// search extrapolates until a number does not fit, then alternates between interpolation and bisection. `rounds`: how
/// many numbers the search has tried.
template <bytes limit, class peaks, int low, int high, int rounds> constexpr int guess_between() {
  if constexpr (low == 1 && high > maximum_sequences) return 2;
  else if constexpr (high > maximum_sequences) {
    constexpr bytes at_low = peaks::template peak<low>;
    return interpolated(low, high, at_low, limit, at_low - peaks::template peak<1>, low - 1);
  } else if constexpr (rounds % 2 == 0) {
    constexpr bytes at_low = peaks::template peak<low>;
    return interpolated(low, high, at_low, limit, peaks::template peak<high> - at_low, high - low);
  } else return low + (high - low) / 2;
}

/// The largest number of sequences in [low, high) whose peak is at most `limit`. `low` must fit; `high` must not fit or
/// must be above `maximum_sequences`. A number whose program is refused (peak -1) does not fit. Assumes that the peak
/// does not fall as the number rises.
template <bytes limit, class peaks, int low, int high, int rounds = 0> constexpr int largest_between() {
  if constexpr (high - low <= 1) return low;
  else {
    constexpr int guess = guess_between<limit, peaks, low, high, rounds>();
    constexpr bytes at_guess = peaks::template peak<guess>;
    if constexpr (at_guess.count() >= 0 && at_guess <= limit)
      return largest_between<limit, peaks, guess, high, rounds + 1>();
    else return largest_between<limit, peaks, low, guess, rounds + 1>();
  }
}

/// The largest micro-batch for which all entries of the trainer fit. The step with one sequence must fit.
template <bytes limit, auto model, class objective, class policy_set> constexpr micro_batch largest_of_entries() {
  using peaks_of_entries = entry_peaks<model, objective, policy_set>;
  constexpr int of_step = largest_between<limit, step_peaks<model, objective, policy_set>, 1, maximum_sequences + 1>();
  if constexpr (peaks_of_entries::template peak<of_step> <= limit) return {of_step};
  else if constexpr (peaks_of_entries::template peak<1> <= limit)
    return {largest_between<limit, peaks_of_entries, 1, of_step>()};
  else return with_missing_bytes<limit, peaks_of_entries::template peak<1> - limit>({});
}

/// Computes `largest_batch`.
template <bytes limit, auto model, class objective, class policy_set> constexpr micro_batch find_largest_batch() {
  constexpr bool searches = policy_set::checkpointing::value.searches();
  static_assert(!searches, "largest_batch: checkpoint::budget chooses what to recompute for one given micro-batch; "
                           "write checkpoint::every<1> or checkpoint::keep<> instead");
  if constexpr (searches) return {};
  else if constexpr (constexpr bytes peak_of_one = step_peaks<model, objective, policy_set>::template peak<1>;
                     peak_of_one.count() < 0) {
    // The program is refused. The static_assert that says why is reached only by making the entries.
    [[maybe_unused]] constexpr bytes refused = entry_peaks<model, objective, policy_set>::template peak<1>;
    return {};
  } else if constexpr (peak_of_one > limit) return with_missing_bytes<limit, peak_of_one - limit>({});
  else return largest_of_entries<limit, model, objective, policy_set>();
}

} // namespace detail

/// The largest micro-batch whose trainer needs at most `limit` bytes on each rank (`trainer::memory.peak`), as a
/// constant. The search assumes that a larger micro-batch does not need less memory. `model`, `objective`: as in
/// `task`. The compiler makes the plans of a few micro-batches, but compiles no kernel. `list`: the policies of the
/// trainer; checkpoint::budget is refused. Sequences have the default length (see `micro_batch::tokens`), for example
/// `model.context` tokens. A micro-batch has at most 65536 sequences. If one sequence does not fit, a compile-time
/// error states how many bytes are missing.
///
///     constexpr auto batch = ct::largest_batch<ct::mebibytes(4096), ct::gpt2{}, ct::causal_lm, ct::precision::bf16>;
///     ct::trainer<ct::task<ct::gpt2{}, ct::causal_lm, batch>, ct::precision::bf16> t;
template <bytes limit, auto model, class objective, class... list>
inline constexpr micro_batch largest_batch =
    detail::find_largest_batch<(limit < bytes(0) ? bytes(0) : limit), model, objective, policies<list...>>();

} // namespace constrain
