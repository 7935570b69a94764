#pragma once

#include "constrain/train/entries.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Returns `found`. Compile-time error: the trainer of one sequence needs `missing` bytes more than `limit`.
template <bytes limit, bytes missing> constexpr micro_batch with_missing_bytes(micro_batch found) {
  static_assert(missing.count() <= 0,
                "largest_batch: not even one sequence fits in the limit, the first of the two "
                "numbers of `with_missing_bytes`, by the bytes of the second; write policies that "
                "save memory, such as checkpoint::every<1>, or a larger limit");
  return found;
}

/// Bytes that a trainer needs for its step alone: the peak of the trainer, unless another entry needs more. -1: the
/// program is refused.
template <class task, class policy_set> constexpr bytes peak_of_step() {
  using source = entry_source<task, policy_set, entry::step>;
  return bytes(source::template bytes_of<step_passes<source>>());
}

/// The task of a model with a number of sequences in a micro-batch.
template <auto model, class objective, int sequences>
using task_of_sequences = task<model, objective, micro_batch{.sequences = sequences}>;

/// The peak of a trainer's step by the number of sequences, and of all its entries.
template <auto model, class objective, class policy_set> struct step_peaks {
  template <int sequences>
  static constexpr bytes peak = peak_of_step<task_of_sequences<model, objective, sequences>, policy_set>();
};
template <auto model, class objective, class policy_set> struct entry_peaks {
  template <int sequences>
  static constexpr bytes peak = entries<task_of_sequences<model, objective, sequences>, policy_set>::memory.peak;
};

inline constexpr int most_sequences = 1 << 16; // that `largest_batch` tries

/// `low` plus the number of steps from `at_low` to `limit`, if `rise` is the sum of `steps` steps; above `low` and
/// below `high`.
constexpr int interpolated(int low, int high, bytes at_low, bytes limit, bytes rise, int steps) {
  double const more = (limit - at_low) / (rise.count() > 0 ? rise : bytes(1)) * steps;
  return more < 1 ? low + 1 : more < high - 1 - low ? low + static_cast<int>(more) : high - 1;
}

/// The next number of sequences to try, above `low` and below `high`. The peak is nearly linear in the number: the
/// search extrapolates until it has a number that does not fit, then interpolates and bisects in turn.
template <bytes limit, class peaks, int low, int high, int rounds> constexpr int guess_between() {
  if constexpr (low == 1 && high > most_sequences) return 2;
  else if constexpr (high > most_sequences) {
    constexpr bytes at_low = peaks::template peak<low>;
    return interpolated(low, high, at_low, limit, at_low - peaks::template peak<1>, low - 1);
  } else if constexpr (rounds % 2 == 0) {
    constexpr bytes at_low = peaks::template peak<low>;
    return interpolated(low, high, at_low, limit, peaks::template peak<high> - at_low, high - low);
  } else return low + (high - low) / 2;
}

/// The largest number of sequences at least `low` and below `high` whose peak is at most `limit`, where `low` fits and
/// `high` does not.
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

/// The largest micro-batch that fits, by the plans of all entries of its trainer; the step of one sequence fits.
template <bytes limit, auto model, class objective, class policy_set> constexpr micro_batch largest_of_all() {
  using all = entry_peaks<model, objective, policy_set>;
  constexpr int of_step = largest_between<limit, step_peaks<model, objective, policy_set>, 1, most_sequences + 1>();
  if constexpr (all::template peak<of_step> <= limit) return {of_step};
  else if constexpr (all::template peak<1> <= limit) return {largest_between<limit, all, 1, of_step>()};
  else return with_missing_bytes<limit, all::template peak<1> - limit>({});
}

/// `largest_batch`. If the program is refused, the trainer of one sequence reports why.
template <bytes limit, auto model, class objective, class policy_set> constexpr micro_batch find_largest_batch() {
  constexpr bytes one = step_peaks<model, objective, policy_set>::template peak<1>;
  if constexpr (one.count() < 0) return {entry_peaks<model, objective, policy_set>::template peak<1> > limit};
  else if constexpr (one > limit) return with_missing_bytes<limit, one - limit>({});
  else return largest_of_all<limit, model, objective, policy_set>();
}

} // namespace detail

/// The largest micro-batch whose trainer needs at most `limit` bytes, as a constant: the plans of a few micro-batches
/// are made, and no kernel. `list`: the policies of the trainer. The sequences have `model.context` tokens, and there
/// are at most 65536 of them. Compile-time error, with the bytes that are missing: one sequence does not fit.
///
///     constexpr auto batch = ct::largest_batch<ct::mebibytes(4096), ct::gpt2{}, ct::causal_lm, ct::precision::bf16>;
///     ct::trainer<ct::task<ct::gpt2{}, ct::causal_lm, batch>, ct::precision::bf16> t;
template <bytes limit, auto model, class objective, class... list>
inline constexpr micro_batch largest_batch = detail::find_largest_batch<limit, model, objective, policies<list...>>();

} // namespace constrain
