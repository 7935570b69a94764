#pragma once

#include "constrain/base/units.hpp"
#include "constrain/train/results.hpp"

#include <cstdint>
#include <optional>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Why a run ended.
enum class stop_reason : std::uint8_t { all_steps, no_improvement, interrupted, by_callback };

/// What came of it.
struct fit_result {
  optimizer_steps steps = 0;              // of the whole run, resumed ones included
  double loss = 0;                        // of the last step
  std::optional<evaluation> validation{}; // the last one
  double seconds = 0;                     // of this call
  double tokens_per_second = 0; // read by the model in all processes, ignored labels and padding included: of training,
                                // waiting for data included, evaluation and saving left out
  double labels_per_second = 0; // the same of valid labels, those that something is learned from
  double share_of_peak = 0;     // its FLOPs a second, of what the processor can do at most in fp32 (a fp64 trainer: in
                                // fp64); 0 on a GPU, and where that could not be measured
  std::int64_t skipped = 0;     // steps whose gradient was not finite
  constrain::stop_reason stop_reason = constrain::stop_reason::all_steps; // why it ended
};

namespace detail {

inline char const* reason_of(stop_reason why) {
  switch (why) {
  case stop_reason::no_improvement: return "the validation loss does not fall any more";
  case stop_reason::interrupted: return "a signal asked for it";
  case stop_reason::by_callback: return "the callback asked for it";
  default: return "all steps are done";
  }
}

} // namespace detail

} // namespace constrain
