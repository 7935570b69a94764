#pragma once

#include "constrain/fit/record/records.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/io/atomic_file.hpp"
#include "constrain/io/mapped_file.hpp"
#include "constrain/io/path.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE void write_metrics(io::json_writer& json, std::vector<metric> const& metrics,
                                                  char const* name) {
  if (metrics.empty()) return;
  json.object(name, io::json_layout::row);
  for (auto const& m : metrics) json.member(m.name, m.value);
  json.end();
}

[[gnu::cold]] CONSTRAIN_INLINE records::records(std::string const& directory, std::int64_t last_step)
    : directory_(create_directory(directory)),
      json_(concat({directory, "/steps.jsonl"}), R"({"step": )", "", last_step),
      csv_(concat({directory, "/steps.csv"}), "", columns, last_step), events_(directory) {}

CONSTRAIN_INLINE records::~records() {}

[[gnu::cold]] CONSTRAIN_INLINE void records::write(step_record const& r) {
  json_.write(json_line(r));
  csv_.write(csv_line(r));
  auto const scalar = [&](char const* name, double value) { events_.scalar(name, r.step, value); };
  scalar("train/loss", r.loss), scalar("train/gradient_norm", r.gradient_norm);
  scalar("train/learning_rate", r.learning_rate), scalar("train/tokens_per_second", r.tokens_per_second);
  if (r.validation_loss) scalar("validation/loss", *r.validation_loss);
  scalar("train/labels_per_second", r.labels_per_second);
  if (r.accuracy) scalar("validation/accuracy", *r.accuracy);
  for (auto const& m : r.validation_metrics) scalar(concat({"validation/", m.name}).c_str(), m.value);
  for (auto const& m : r.metrics) scalar(concat({"metrics/", m.name}).c_str(), m.value);
  for (auto const& s : r.settings) scalar(concat({"settings/", s.name}).c_str(), s.value);
}

[[gnu::cold]] CONSTRAIN_INLINE std::vector<step_record> records::steps() const {
  auto const path = concat({directory_, "/steps.jsonl"});
  io::mapped_file const file(path, "the records");
  std::vector<step_record> result;
  for (auto remaining = file.text(); !remaining.empty();) {
    auto const line = remaining.substr(0, remaining.find('\n'));
    remaining.remove_prefix(std::min(line.size() + 1, remaining.size()));
    try {
      result.push_back(parse(io::json::parse(line, path)));
    } catch (error const&) {
      // An unreadable line is skipped: see `steps` in records.hpp.
    }
  }
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE void records::write_file(char const* name, std::string_view text) const {
  io::atomic_file file(concat({directory_, "/", name}), io::atomic_file::links::refused);
  file.out().write(io::text_bytes(text));
  file.commit();
}

[[gnu::cold]] CONSTRAIN_INLINE std::string const& records::create_directory(std::string const& directory) {
  io::make_directories(directory);
  return directory;
}

[[gnu::cold]] CONSTRAIN_INLINE std::string records::json_line(step_record const& r) {
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
  write_metrics(json, r.validation_metrics, "validation_metrics");
  if (r.saved) json.member("saved", true);
  if (r.resumed) json.member("resumed", true);
  write_metrics(json, r.metrics), write_metrics(json, r.settings, "settings");
  return json.end().text();
}

[[gnu::cold]] CONSTRAIN_INLINE step_record records::parse(io::json const& line) {
  step_record r;
  r.step = line["step"].int64(), r.loss = line["loss"].real(), r.gradient_norm = line["gradient_norm"].real();
  r.learning_rate = line["learning_rate"].real(), r.seconds = line["seconds"].real(), r.tokens = line["tokens"].int64();
  r.tokens_per_second = line["tokens_per_second"].real(), r.skipped = line["skipped"].boolean();
  if (auto const x = line.find("validation_loss")) r.validation_loss = x->real();
  if (auto const x = line.find("accuracy")) r.accuracy = x->real();
  if (auto const x = line.find("labels_per_second")) r.labels_per_second = x->real();
  if (auto const x = line.find("saved")) r.saved = x->boolean();
  if (auto const x = line.find("resumed")) r.resumed = x->boolean();
  auto const read = [&](char const* member, std::vector<metric>& values) {
    if (auto const x = line.find(member))
      for (auto const& [name, value] : x->members()) values.push_back({std::string(name), value.real()});
  };
  read("validation_metrics", r.validation_metrics);
  read("metrics", r.metrics), read("settings", r.settings);
  return r;
}

[[gnu::cold]] CONSTRAIN_INLINE std::string records::csv_line(step_record const& r) {
  auto line = concat({r.step});
  auto const add = [&](std::optional<double> x) {
    line += ',';
    char digits[64];
    if (x)
      line.append(static_cast<char const*>(digits),
                  static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, *x).ptr - digits));
  };
  add(r.loss), add(r.gradient_norm), add(r.learning_rate), add(r.seconds);
  line += concat({",", r.tokens});
  add(r.tokens_per_second);
  line += r.skipped ? ",1" : ",0";
  add(r.validation_loss), add(r.accuracy);
  return line;
}

} // namespace constrain
