#pragma once

#include "constrain/fit/record/records.hpp"
#include "constrain/fit/record/report.hpp"
#include "constrain/fit/result.hpp"
#include "constrain/fit/trainer_facts.hpp"
#include "constrain/io/json_writer.hpp"

#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The content of summary.json, an object. `metrics`: the user-defined metrics that are in no step's record.
[[gnu::cold]] io::json_writer summary_of(trainer_facts const& t, fit_result const& r,
                                         std::vector<metric> const& metrics);

/// The metrics of an evaluation for the records: the objective's and, for each set of `further`, its loss, its accuracy
/// (if `counts_correct`: the labels are classes) and the objective's metrics, named after the set, such as "books/f1".
[[gnu::cold]] std::vector<metric> metrics_of(evaluation const& e, std::vector<named_evaluation> const& further,
                                             bool counts_correct);

/// An evaluation in a line of the log, for example "validation loss 0.5123 | perplexity 1.67 | accuracy 0.900 | f1
/// 0.889". `counts_correct`: whether the labels are classes, so that perplexity and accuracy are defined.
[[gnu::cold]] std::string evaluation_text(evaluation const& e, bool counts_correct);

/// The last line of the log, without the line feed: why the run ended and, if the call took a step, its results and
/// `directory`. `directory`: where the run is saved; empty if it is not saved.
[[gnu::cold]] std::string ending(trainer_facts const& t, fit_result const& r, std::string const& directory);

/// The head of report.html: the policies, facts about the run, and the memory plan.
[[gnu::cold]] report_head head_of(trainer_facts const& t, fit_result const& r);

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/fit/summary.ipp"
#endif
