#pragma once

#include "constrain/fit/record/chart.hpp"
#include "constrain/fit/record/records.hpp"
#include "constrain/pass/cost.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Title, facts and memory plan of a report. Title and facts are plain text; `report` escapes them for HTML.
struct report_head {
  std::string title;                                      // heading of the page
  std::vector<std::pair<std::string, std::string>> facts; // (name, value), in the order of display
  memory_plan memory{};                                   // the trainer's memory plan
};

/// A run's report as one self-contained HTML page: diagnosis, facts, charts and memory plan. `steps`: all steps of the
/// run, in order. The charts show losses, learning rate, gradient norm, throughput, validation accuracy, the validation
/// metrics of `step_record`, user-defined metrics, and settings that change. The charts mark the steps at which the run
/// was saved (dotted) and resumed (dashed).
[[gnu::cold]] std::string report(report_head const& head, std::span<step_record const> steps);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/fit/record/report.ipp"
#endif
