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

/// A number of one's own, by its name.
struct metric {
  std::string name;
  double value = 0;
};

/// What is recorded of a step. Of an evaluation only where there was one.
struct step_record {
  std::int64_t step = 0;
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  double seconds = 0; // of this step
  double tokens_per_second =
      0; // read by the model in all processes: the mean since this run began or was taken up again, waiting
         // for data included, evaluation and saving left out
  double labels_per_second = 0; // the same of valid labels; 0 where an older record lacks it
  std::int64_t tokens = 0;      // valid labels of this step
  bool skipped = false;
  std::optional<double> validation_loss{}, accuracy{};
  bool saved = false, resumed = false; // after it; before it
  std::vector<metric> metrics{};       // one's own
};

/// Adds the member "metrics", an object on one line.
[[gnu::noinline, gnu::cold]] inline void write_metrics(io::json_writer& json, std::vector<metric> const& metrics) {
  json.object("metrics", io::json_layout::row);
  for (auto const& m : metrics) json.member(m.name, m.value);
  json.end();
}

/// The records of a run in a directory: `steps.jsonl` and `steps.csv` (without one's own metrics, since its columns are
/// the same in every line) with a line a step, and an event file for TensorBoard. A run that goes on after `last_step`
/// goes on in the same files, as they were then. Throws `error`.
class records {
public:
  /// Makes the directory where it does not exist. `last_step`: 0 for a new run.
  records(std::string const& directory, std::int64_t last_step)
      : directory_(made(directory)), json_(directory + "/steps.jsonl", R"({"step": )", "", last_step),
        csv_(directory + "/steps.csv", "", columns, last_step), events_(directory) {}

  /// One step's line in each file. Throws `error`.
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

  /// All steps so far, also those before the run was taken up again. A line that somebody has changed and that cannot
  /// be read any more is left out: a long run must not end with an exception for it.
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

  /// Another file of the directory, whole or not at all.
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
