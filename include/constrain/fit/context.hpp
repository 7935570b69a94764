#pragma once

#include "constrain/base/error.hpp"
#include "constrain/fit/record/records.hpp"
#include "constrain/fit/result.hpp"
#include "constrain/io/utf8.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The state of a run, which `fit` passes to its callbacks. "The whole run" includes the steps before a resume.
class fit_context {
public:
  optimizer_steps step = 0;               // optimizer steps done so far in the whole run
  optimizer_steps steps = 0;              // optimizer steps of the whole run, unless it ends early
  optimizer_steps first_step = 0;         // optimizer steps done before this call to `fit`
  double epoch = 0;                       // epochs of the data read so far; 1.5: the first and half of the second
  step_result last{};                     // result of this call's last step; default-constructed before the first
  std::optional<evaluation> validation{}; // result of this call's last complete evaluation, if any
  std::vector<named_evaluation> further_validation{}; // results of the same evaluation: one per `.further_validation`
                                                      // set, in order; empty before the first evaluation
  std::string saved{};                                // directory of this call's last save; empty: none so far
  fit_result result{}; // result so far, without steps and seconds; in on_end, the result that `fit` returns, unless a
                       // signal then changes its stop reason

  /// Ends the run on all ranks: before the first step if called in on_start, otherwise after the current step. After
  /// that step, `fit` still evaluates if `.validation` is set, and saves if `.directory` is set; but after a call in
  /// on_save, it does not evaluate, because a step is evaluated before it is saved. After a call during an evaluation
  /// that makes up for a missed one, the run ends before the first step. Has no effect in on_end. `result.stop_reason`
  /// becomes `stop_reason::by_callback`, unless the run already ends for another reason.
  void stop() { stops_ = true; }

  /// Adds the value of a user-defined metric to the records. Only rank 0 writes records, so values on other ranks are
  /// not recorded. A value from on_start is written with the first step, a value from on_step or on_evaluation with the
  /// current step, and a value from on_save with the next step (with the current step, if the save was to `.best`). A
  /// value from an evaluation that makes up for a missed one is written with the next step. A value from on_end, or for
  /// a step that does not run, is written only to summary.json (nowhere if the call to `fit` takes no step). A second
  /// value of a metric for the same step replaces the first. Throws `error` if the name is empty, is not UTF-8 or has a
  /// NUL byte.
  void metric(std::string_view name, double value) {
    bool const has_nul = name.find('\0') != name.npos; // the event file would end the name there
    if (name.empty() || has_nul || io::find_invalid_utf8(name) != name.size())
      throw error({"fit: the name '", name.substr(0, name.find('\0')), "' of a metric ",
                   name.empty() ? "is empty"
                   : has_nul    ? "has a NUL byte"
                                : "is not UTF-8",
                   "; use another name"});
    for (auto& m : metrics_)
      if (m.name == name) {
        m.value = value;
        return;
      }
    metrics_.push_back({std::string(name), value});
  }

  /// For `fit`: whether `stop` was called.
  bool stops() const { return stops_; }
  /// For `fit`: returns and removes the metrics that have been added since the last call.
  std::vector<constrain::metric> take_metrics() { return std::exchange(metrics_, {}); }

private:
  bool stops_ = false;
  std::vector<constrain::metric> metrics_{};
};

} // namespace constrain
