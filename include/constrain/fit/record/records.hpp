#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/io/atomic_file.hpp"
#include "constrain/io/event_file.hpp"
#include "constrain/io/json.hpp"
#include "constrain/io/json_writer.hpp"
#include "constrain/io/log_file.hpp"
#include "constrain/io/mapped_file.hpp"
#include "constrain/io/path.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A user-defined metric.
struct metric {
  std::string name; // UTF-8, not empty
  double value = 0; // at the step that it is recorded with
};

/// The record of one optimizer step, and of the evaluation after it, if any.
struct step_record {
  std::int64_t step = 0;                                 // optimizer steps done, this one included
  double loss = 0, gradient_norm = 0, learning_rate = 0; // of this step; the norm before clipping
  double seconds = 0;                                    // duration of this step
  double tokens_per_second =
      0; // of all ranks together, averaged since the run began or was resumed; waiting for data counts,
         // evaluation and saving do not
  double labels_per_second = 0;                        // the same for valid labels only; 0 if an older record lacks it
  std::int64_t tokens = 0;                             // valid labels of this step
  bool skipped = false;                                // a gradient was not finite, so nothing was updated
  std::optional<double> validation_loss{}, accuracy{}; // of the evaluation after this step, if any
  bool saved = false, resumed = false;                 // saved after this step; resumed before it
  std::vector<metric> metrics{};                       // user-defined
};

/// Adds the member "metrics", an object on one line.
[[gnu::noinline, gnu::cold]] inline void write_metrics(io::json_writer& json, std::vector<metric> const& metrics) {
  json.object("metrics", io::json_layout::row);
  for (auto const& m : metrics) json.member(m.name, m.value);
  json.end();
}

/// The records of a run in a directory: steps.jsonl and steps.csv with a line per step (user-defined metrics only in
/// the former, as CSV columns are fixed), and an event file for TensorBoard. A run resumed after `last_step` appends to
/// the same files; lines of later steps are removed. Throws `error`.
class records {
public:
  records(std::string const& directory, std::int64_t last_step)
      : directory_(made(directory)), json_(directory + "/steps.jsonl", R"({"step": )", "", last_step),
        csv_(directory + "/steps.csv", "", columns, last_step), events_(directory) {}

  /// Appends a step to all files.
  [[gnu::noinline, gnu::cold]] void write(step_record const& r) {
    json_.write(json_line(r));
    csv_.write(csv_line(r));
    auto const scalar = [&](char const* name, double value) { events_.scalar(name, r.step, value); };
    scalar("train/loss", r.loss), scalar("train/gradient_norm", r.gradient_norm);
    scalar("train/learning_rate", r.learning_rate), scalar("train/tokens_per_second", r.tokens_per_second);
    if (r.validation_loss) scalar("validation/loss", *r.validation_loss);
    scalar("train/labels_per_second", r.labels_per_second);
    if (r.accuracy) scalar("validation/accuracy", *r.accuracy);
    for (auto const& m : r.metrics) scalar(("metrics/" + m.name).c_str(), m.value);
  }

  /// All recorded steps, including those before the run was resumed. Unreadable lines are skipped: a file edited by
  /// hand must not end a long run with an exception.
  [[gnu::noinline, gnu::cold]] std::vector<step_record> steps() const {
    auto const path = concat({directory_, "/steps.jsonl"});
    io::mapped_file const file(path, "the log");
    std::vector<step_record> all;
    for (auto rest = file.text(); !rest.empty();) {
      auto const line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      try {
        all.push_back(parse(io::json::parse(line, path)));
      } catch (error const&) {}
    }
    return all;
  }

  /// Writes another file to the directory, atomically.
  [[gnu::noinline, gnu::cold]] void write_file(char const* name, std::string_view text) const {
    io::atomic_file file(directory_ + "/" + name, io::atomic_file::links::refused);
    file.out().write(text);
    file.commit();
  }

private:
  static constexpr char const* columns =
      "step,loss,gradient_norm,learning_rate,seconds,tokens,tokens_per_second,skipped,validation_loss,accuracy";

  static std::string const& made(std::string const& directory) {
    io::make_directories(directory);
    return directory;
  }

  [[gnu::noinline, gnu::cold]] static std::string json_line(step_record const& r) {
    io::json_writer json;
    json.object(io::json_layout::row)
        .member("step", r.step)
        .member("loss", r.loss)
        .member("gradient_norm", r.gradient_norm);
    json.member("learning_rate", r.learning_rate).member("seconds", r.seconds).member("tokens", r.tokens);
    json.member("tokens_per_second", r.tokens_per_second).member("labels_per_second", r.labels_per_second);
    json.member("skipped", r.skipped);
    if (r.validation_loss) json.member("validation_loss", *r.validation_loss);
    if (r.accuracy) json.member("accuracy", *r.accuracy);
    if (r.saved) json.member("saved", true);
    if (r.resumed) json.member("resumed", true);
    if (!r.metrics.empty()) write_metrics(json, r.metrics);
    return json.end().text();
  }

  [[gnu::noinline, gnu::cold]] static step_record parse(io::json const& line) {
    step_record r;
    r.step = line["step"].int64(), r.loss = line["loss"].real(), r.gradient_norm = line["gradient_norm"].real();
    r.learning_rate = line["learning_rate"].real(), r.seconds = line["seconds"].real(),
    r.tokens = line["tokens"].int64();
    r.tokens_per_second = line["tokens_per_second"].real(), r.skipped = line["skipped"].boolean();
    if (auto const x = line.find("validation_loss")) r.validation_loss = x->real();
    if (auto const x = line.find("accuracy")) r.accuracy = x->real();
    if (auto const x = line.find("labels_per_second")) r.labels_per_second = x->real();
    r.saved = line.find("saved").has_value(), r.resumed = line.find("resumed").has_value();
    if (auto const x = line.find("metrics"))
      for (auto const& [name, value] : x->members()) r.metrics.push_back({std::string(name), value.real()});
    return r;
  }

  [[gnu::noinline, gnu::cold]] static std::string csv_line(step_record const& r) {
    auto line = std::to_string(r.step);
    auto const add = [&](std::optional<double> x) {
      line += ',';
      char digits[64];
      if (x)
        line += std::string_view(
            digits, static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, *x).ptr - digits));
    };
    add(r.loss), add(r.gradient_norm), add(r.learning_rate), add(r.seconds);
    line += ',' + std::to_string(r.tokens);
    add(r.tokens_per_second);
    line += r.skipped ? ",1" : ",0";
    add(r.validation_loss), add(r.accuracy);
    return line;
  }

  std::string directory_;
  io::log_file json_, csv_;
  io::event_file events_;
};

} // namespace constrain
