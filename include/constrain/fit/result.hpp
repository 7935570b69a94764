#pragma once

#include "constrain/base/units.hpp"
#include "constrain/train/results.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Why a run ended: all steps or epochs are done (`all_steps`), `.patience` evaluations in a row did not improve on the
/// lowest validation loss (`no_improvement`), SIGINT or SIGTERM arrived (`interrupted`), or a callback stopped the run
/// (`by_callback`).
enum class stop_reason : std::uint8_t { all_steps, no_improvement, interrupted, by_callback };

/// The evaluation of a set in `fit_options::further_validation`.
struct named_evaluation {
  std::string name;  // name of the set
  evaluation result; // result of the evaluation
};

/// Result of `fit`.
struct fit_result {
  optimizer_steps steps = 0;              // steps done in the whole run, including steps before a resume
  double loss = 0;                        // training loss of the last step of this call; 0 if the call took no step
  std::optional<evaluation> validation{}; // result of this call's last complete evaluation, if any
  std::vector<named_evaluation> further_validation{}; // results of the same evaluation: one per `.further_validation`
                                                      // set, in order; empty without an evaluation
  double seconds = 0;                                 // duration of this call until on_end
  double tokens_per_second = 0; // training throughput of this call, over all ranks, including padding and tokens with
                                // ignored labels, but not additional inputs; the time includes waiting for data, but
                                // not callbacks, evaluation or saving
  double labels_per_second = 0; // valid labels per second, over the same ranks and time
  double share_of_peak = 0;     // this rank's FLOP/s (`trainer::flops` per step) as a share of the measured peak of its
                                // threads, in fp32 (fp64 for precision::fp64); 0 on a GPU, or if the peak could not be
                                // measured
  std::int64_t skipped = 0;     // steps of this call that were skipped because the gradient norm was not finite
  constrain::stop_reason stop_reason = constrain::stop_reason::all_steps; // why the run ended
};

namespace detail {

/// The reason as text, for the log, summary.json and the report.
inline char const* reason_of(stop_reason reason) {
  switch (reason) {
  case stop_reason::no_improvement: return "the last .patience evaluations did not lower the validation loss";
  case stop_reason::interrupted: return "interrupted by a signal";
  case stop_reason::by_callback: return "stopped by a callback";
  default: return "all steps are done";
  }
}

} // namespace detail

} // namespace constrain
