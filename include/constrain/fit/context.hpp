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

/// Where a run of `fit` stands: what its callbacks are called with.
class fit_context {
public:
  optimizer_steps step = 0;               // done, of the whole run
  optimizer_steps steps = 0;              // of the whole run
  optimizer_steps first_step = 0;         // done before this call of fit
  double epoch = 0;                       // epochs of the corpus read: 1.5 is in the midst of the second
  step_result last{};                     // of the last step; empty in on_start
  std::optional<evaluation> validation{}; // the last one
  std::string saved{};                    // the directory of the checkpoint written last
  fit_result result{};                    // so far; in on_end what fit returns

  /// Ends the run: in on_start before the first step, elsewhere after this one, with what belongs to the end of a run.
  /// The reason is `stop_reason::by_callback`. One process that asks ends all.
  void stop() { stops_ = true; }

  /// Records a number of one's own with the step: in on_step and on_evaluation this one, in on_start the first one, in
  /// on_save the next one; what comes after the last is in summary.json alone. Said twice for a step, the last one
  /// counts. Throws `error` for a name that is empty or not UTF-8.
  void metric(std::string_view name, double value) {
    if (name.empty() || io::invalid_utf8(name) != name.size())
      throw error({"fit: the name '", name, "' of a metric is ", name.empty() ? "empty" : "not UTF-8",
                   "; give it another one"});
    for (auto& each : metrics_)
      if (each.name == name) {
        each.value = value;
        return;
      }
    metrics_.push_back({std::string(name), value});
  }

  /// For fit: whether `stop` was called, and the metrics since it asked last.
  bool stops() const { return stops_; }
  std::vector<constrain::metric> take_metrics() { return std::exchange(metrics_, {}); }

private:
  bool stops_ = false;
  std::vector<constrain::metric> metrics_{};
};

} // namespace constrain
