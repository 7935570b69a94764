#pragma once

#include "constrain/io/event_file.hpp"
#include "constrain/io/json.hpp"
#include "constrain/io/json_writer.hpp"
#include "constrain/io/log_file.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A user-defined metric, a metric of an evaluation, or a setting.
struct metric {
  std::string name; // UTF-8, not empty
  double value = 0; // value at the step of the record
};

/// The record of one optimizer step, and of the evaluation after the step, if any.
struct step_record {
  std::int64_t step = 0;                                 // optimizer steps done, including this one
  double loss = 0, gradient_norm = 0, learning_rate = 0; // of this step; the norm before clipping
  double seconds = 0;                                    // duration of this step, without the wait for data
  double tokens_per_second = 0; // `fit_result::tokens_per_second` over the steps of this call to `fit` up to this step
  double labels_per_second = 0; // `fit_result::labels_per_second` over the same steps; 0 if steps.jsonl lacks it
  std::int64_t tokens = 0;      // valid labels of this step, over all ranks
  bool skipped = false;         // the gradient norm was not finite, so no weight or optimizer state was updated; with
                                // optimizer::in_backward, always false
  // Of the evaluation after this step, if any. An accuracy exists only if evaluation counts correct predictions.
  std::optional<double> validation_loss{}, accuracy{};
  // Of the evaluation after this step: the objective's metrics (model/metric/metrics.hpp), such as "macro_f1", and, for
  // each set of `fit_options::further_validation`, its results, named after the set, such as "books/loss".
  std::vector<metric> validation_metrics{};
  bool saved = false;             // whether the run is saved to `fit_options::directory` after this step
  bool resumed = false;           // whether a call to `fit` began with this step and continued earlier steps
  std::vector<metric> metrics{};  // user-defined metrics
  std::vector<metric> settings{}; // the model's (ct::setting) and the library's: the values that this step read
};

/// Adds the metrics, which must have different names, to the object that `json` is writing, as a member `name`: an
/// object of names and values, on one line. Adds nothing if there are no metrics.
[[gnu::cold]] void write_metrics(io::json_writer& json, std::vector<metric> const& metrics,
                                 char const* name = "metrics");

/// The records of a run in a directory: steps.jsonl and steps.csv with a line per step, and an event file for
/// TensorBoard. steps.csv has fixed columns, which omit labels_per_second, saved, resumed, the settings and all
/// metrics. If a run is resumed after `last_step`, `records` removes the lines of later steps from steps.jsonl and
/// steps.csv, appends to both files, and starts a new event file. Empties a steps.csv that has other columns. Throws
/// `error` if a file cannot be written.
class records {
public:
  /// Creates the directory if it does not exist. `last_step`: last step before the resume; 0: a new run, so an existing
  /// steps.jsonl or steps.csv is emptied. Throws `error` if the directory cannot be created, or if steps.jsonl or
  /// steps.csv is not a regular file, is a symbolic link or has other hard links.
  [[gnu::cold]] records(std::string const& directory, std::int64_t last_step);
  ~records();

  /// Appends a step to all files. Steps must be written in ascending order. Throws `error` if a file cannot be written.
  [[gnu::cold]] void write(step_record const& r);

  /// All recorded steps, including those before the run was resumed. Unreadable lines are skipped: a file edited by
  /// hand must not end a long run with an exception. Throws `error` if steps.jsonl cannot be opened.
  [[gnu::cold]] std::vector<step_record> steps() const;

  /// Writes the file `name`, with the content `text`, to the directory, atomically: a reader finds the old content or
  /// the new content. Throws `error` if the file cannot be written or is a symbolic link.
  [[gnu::cold]] void write_file(char const* name, std::string_view text) const;

private:
  static constexpr char const* columns =
      "step,loss,gradient_norm,learning_rate,seconds,tokens,tokens_per_second,skipped,validation_loss,accuracy";

  /// Creates the directory and returns its path.
  static std::string const& create_directory(std::string const& directory);

  /// The step as a line of steps.jsonl, without the line feed.
  [[gnu::cold]] static std::string json_line(step_record const& r);

  /// The step of a line of steps.jsonl. Throws `error` if a member has the wrong kind, or if the line lacks a member
  /// that every version writes in every line.
  [[gnu::cold]] static step_record parse(io::json const& line);

  /// The step as a line of steps.csv, without the line feed.
  [[gnu::cold]] static std::string csv_line(step_record const& r);

  std::string directory_;
  io::log_file json_, csv_;
  io::event_file events_;
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/fit/record/records.ipp"
#endif
