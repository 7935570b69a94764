#pragma once

#include "constrain/pass/row_loop.hpp"
#include "constrain/train/entries.hpp"

#include <cstdint>

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

/// The task of a model with micro-batches of `sequences` sequences.
template <auto model, class objective, int sequences>
using task_of_sequences = task<model, objective, micro_batch{.sequences = sequences}>;

/// The peak of a trainer's step, as a function of the number of sequences. A peak is -1 if the program is refused.
template <auto model, class objective, class policy_set> struct step_peaks {
  template <int sequences>
  using passes = step_passes<step_source<task_of_sequences<model, objective, sequences>, policy_set>>;
  template <int sequences> static constexpr bytes peak{bytes_of_step<passes<sequences>, typename policy_set::target>()};
};
/// Like `step_peaks`, but the peak over all entries of a trainer.
template <auto model, class objective, class policy_set> struct entry_peaks {
  template <int sequences>
  static constexpr bytes peak{bytes_of_trainer<task_of_sequences<model, objective, sequences>, policy_set>()};
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
/// search extrapolates until a number does not fit, then alternates between interpolation and bisection. `start`: the
/// number at which the search began. `rounds`: how many numbers the search has tried.
template <bytes limit, class peaks, int low, int high, int start, int rounds> constexpr int guess_between() {
  if constexpr (low == start && high > maximum_sequences) return low + 1;
  else if constexpr (high > maximum_sequences) {
    constexpr bytes at_low = peaks::template peak<low>;
    return interpolated(low, high, at_low, limit, at_low - peaks::template peak<start>, low - start);
  } else if constexpr (rounds % 2 == 0) {
    constexpr bytes at_low = peaks::template peak<low>;
    return interpolated(low, high, at_low, limit, peaks::template peak<high> - at_low, high - low);
  } else return low + (high - low) / 2;
}

/// Whether a number of sequences fits. A number whose program is refused does not fit.
template <bytes limit, class peaks, int sequences>
inline constexpr bool fits_in =
    peaks::template peak<sequences>.count() >= 0 && peaks::template peak<sequences> <= limit;

/// The largest number of sequences in [low, high) that fits. `low` must fit; `high` must not fit or must be above
/// `maximum_sequences`. Assumes that the peak does not fall as the number rises.
template <bytes limit, class peaks, int low, int high, int start = low, int rounds = 0>
constexpr int largest_between() {
  if constexpr (high - low <= 1) return low;
  else {
    constexpr int guess = guess_between<limit, peaks, low, high, start, rounds>();
    if constexpr (fits_in<limit, peaks, guess>) return largest_between<limit, peaks, guess, high, start, rounds + 1>();
    else return largest_between<limit, peaks, low, guess, start, rounds + 1>();
  }
}

/// The largest number of sequences in [low, high) for which all entries of the trainer fit; 0: none. `high` as in
/// `largest_between`.
template <bytes limit, class steps, class all_entries, int low, int high> constexpr int largest_of_entries() {
  if constexpr (!fits_in<limit, steps, low>) return 0;
  else if constexpr (constexpr int of_step = largest_between<limit, steps, low, high>();
                     fits_in<limit, all_entries, of_step>)
    return of_step;
  else if constexpr (fits_in<limit, all_entries, low>) return largest_between<limit, all_entries, low, of_step>();
  else return 0;
}

/// Bytes of the logits over whose rows the pass `fuse` would loop if they were large enough; 0: none.
constexpr std::int64_t loopable_logits(program const& p) {
  for (int i = 0; p.failure.ok() && i < p.nodes.size(); ++i) {
    auto const& n = p.nodes[i];
    if (!calls(n, info_of<op::linear>) || !is_large_activation(p, n.outputs[0], 0)) continue;
    auto const& info = p.values[n.outputs[0].value];
    if (row_looping(p, i, 0).applies()) return info.shape.elements() * size_of(info.type);
  }
  return 0;
}

/// `loopable_logits` per sequence, in a micro-batch of `sequences` sequences.
template <class steps, int sequences>
inline constexpr std::int64_t loopable_logits_of =
    loopable_logits(steps::template passes<sequences>::before_fusion()) / sequences;

/// `loopable_logits` per sequence, in a micro-batch of any size. One sequence may have too few rows of logits for a
/// loop; 17 have at least two chunks of rows.
template <class steps> constexpr std::int64_t loopable_logits_of_any() {
  if constexpr (loopable_logits_of<steps, 1> != 0) return loopable_logits_of<steps, 1>;
  else return loopable_logits_of<steps, 17>;
}

/// The first number of sequences for which the head and the loss become a loop over rows because their logits are large
/// (`slot_of::fusion::smallest_logits`). The peak may fall there. 0: none up to `maximum_sequences`.
template <auto model, class objective, class policy_set> constexpr int first_with_row_loop() {
  constexpr auto const& fusion = policy_set::fusion::value;
  if constexpr (!fusion.fuses || fusion.smallest_logits <= 0) return 0;
  else {
    // Not in an `if constexpr`, where nvcc 13 replaces the constant with text that g++ does not accept.
    std::int64_t const logits = loopable_logits_of_any<step_peaks<model, objective, policy_set>>();
    std::int64_t const first = logits == 0 ? 0 : (fusion.smallest_logits - 1) / logits + 1;
    return first <= maximum_sequences ? static_cast<int>(first) : 0;
  }
}

/// Computes `largest_batch`.
template <bytes limit, auto model, class objective, class policy_set> constexpr micro_batch find_largest_batch() {
  constexpr bool searches = policy_set::checkpointing::value.searches();
  static_assert(!searches, "largest_batch: checkpoint::budget chooses what to recompute for one given micro-batch; "
                           "write checkpoint::every<1> or checkpoint::keep<> instead");
  using task_of_one = task_of_sequences<model, objective, 1>;
  constexpr bool has_length = task_of_one::requested_tokens >= 1 || !is_model<decltype(model)>;
  static_assert(has_length,
                "largest_batch: the model has no member `context` above 0, which is the number of tokens of "
                "a sequence; give the model one, for example `static constexpr int context = 128;`");
  using steps = step_peaks<model, objective, policy_set>;
  using all_entries = entry_peaks<model, objective, policy_set>;
  if constexpr (searches || !has_length) return {};
  else if constexpr (all_entries::template peak<1>.count() < 0) {
    // The program is refused. Only instantiating the entries reaches the static_assert that says why.
    [[maybe_unused]] constexpr bytes refused = entries<task_of_one, policy_set>::memory.peak;
    return {};
  } else {
    // Where the row loop starts, the peak may fall. So this number of sequences or a larger one may fit even if a
    // smaller one does not.
    constexpr int first = first_with_row_loop<model, objective, policy_set>();
    constexpr int start = first > 1 ? first : 1;
    if constexpr (constexpr int found = largest_of_entries<limit, steps, all_entries, start, maximum_sequences + 1>();
                  found > 0)
      return {found};
    else if constexpr (constexpr int fewer = largest_of_entries<limit, steps, all_entries, 1, first>(); fewer > 0)
      return {fewer};
    else return with_missing_bytes<limit, all_entries::template peak<1> - limit>({});
  }
}

} // namespace detail

/// The largest micro-batch whose trainer needs at most `limit` bytes on each rank (`trainer::memory.peak`), as a
/// constant. The search assumes that a larger micro-batch does not need less memory, except where the loop over rows of
/// fusion::automatic starts. `model`, `objective`: as in `task`. The compiler makes the plans of a few micro-batches,
/// but compiles no kernel. `list`: the policies of the trainer; checkpoint::budget is refused. Sequences have the
/// default length (see `micro_batch::tokens`), for example `model.context` tokens. A micro-batch has at most 65536
/// sequences. If one sequence does not fit, a compile-time error states how many bytes are missing.
///
///     constexpr auto batch = ct::largest_batch<ct::mebibytes(4096), ct::gpt2{}, ct::causal_lm, ct::precision::bf16>;
///     ct::trainer<ct::task<ct::gpt2{}, ct::causal_lm, batch>, ct::precision::bf16> t;
template <bytes limit, auto model, class objective, class... list>
inline constexpr micro_batch largest_batch =
    detail::find_largest_batch<(limit < bytes(0) ? bytes(0) : limit), model, objective, policies<list...>>();

} // namespace constrain
