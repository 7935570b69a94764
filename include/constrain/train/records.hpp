#pragma once

#include "constrain/io/atomic_file.hpp"
#include "constrain/io/event_file.hpp"
#include "constrain/io/json_writer.hpp"
#include "constrain/io/log_file.hpp"

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/stat.h>

namespace constrain::inline CONSTRAIN_VARIANT {

/// What is recorded of a step. Of an evaluation only where there was one.
struct step_record {
  std::int64_t step = 0;
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  double seconds = 0, tokens_per_second = 0;
  std::int64_t tokens = 0; // valid labels
  bool skipped = false;
  std::optional<double> validation_loss{}, accuracy{};
};

/// The records of a run in a directory: `steps.jsonl` and `steps.csv` with a line a step, and an event file for
/// TensorBoard. A run that goes on after `last_step` goes on in the same files, as they were then. Throws `error`.
class records {
public:
  records(std::string const& directory, std::int64_t last_step)
      : directory_(made(directory)), json_(directory + "/steps.jsonl", R"({"step": )", "", last_step),
        csv_(directory + "/steps.csv", "", columns, last_step), events_(directory) {}

  void write(step_record const& r) {
    json_.write(json_line(r));
    csv_.write(csv_line(r));
    auto const scalar = [&](char const* name, double value) { events_.scalar(name, r.step, value); };
    scalar("train/loss", r.loss), scalar("train/gradient_norm", r.gradient_norm);
    scalar("train/learning_rate", r.learning_rate), scalar("train/tokens_per_second", r.tokens_per_second);
    if (r.validation_loss) scalar("validation/loss", *r.validation_loss);
    if (r.accuracy) scalar("validation/accuracy", *r.accuracy);
  }

  /// `summary.json`, whole or not at all.
  void summarise(io::json_writer const& summary) const {
    io::atomic_file file(directory_ + "/summary.json");
    file.out().write(summary.text() + "\n");
    file.commit();
  }

private:
  static constexpr char const* columns =
      "step,loss,gradient_norm,learning_rate,seconds,tokens,tokens_per_second,skipped,validation_loss,accuracy";

  static std::string const& made(std::string const& directory) {
    if (::mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST)
      throw io::failure({"the directory '", directory, "' for records cannot be made (", io::reason(),
                         "); make it, or choose another one"});
    return directory;
  }

  static std::string json_line(step_record const& r) {
    io::json_writer json;
    json.object(io::json_layout::row).member("step", r.step).member("loss", r.loss).member("gradient_norm", r.gradient_norm);
    json.member("learning_rate", r.learning_rate).member("seconds", r.seconds).member("tokens", r.tokens);
    json.member("tokens_per_second", r.tokens_per_second).member("skipped", r.skipped);
    if (r.validation_loss) json.member("validation_loss", *r.validation_loss);
    if (r.accuracy) json.member("accuracy", *r.accuracy);
    return json.end().text();
  }

  static std::string csv_line(step_record const& r) {
    auto line = std::to_string(r.step);
    auto const add = [&](std::optional<double> x) {
      line += ',';
      char digits[64];
      if (x) line.append(digits, std::to_chars(digits, digits + sizeof digits, *x).ptr);
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
