#pragma once

#include "constrain/fit/compare.hpp"

#include "constrain/base/formatted.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/base/number_text.hpp"
#include "constrain/base/printable.hpp"
#include "constrain/comm/fingerprint.hpp"
#include "constrain/io/json_writer.hpp"

#include <cmath>
#include <limits>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE void check_comparison(compare_options const& o) {
  check_count("compare_options", ".tokens", o.tokens.count(), 1);
  check_number("compare_options", ".learning_rate", o.learning_rate, number_range::from_zero);
  // Optimizers store it in fp32.
  bool const is_too_large = o.learning_rate > static_cast<double>(std::numeric_limits<float>::max());
  if (is_too_large || (o.learning_rate > 0 && static_cast<float>(o.learning_rate) == 0))
    refuse_number("compare_options", ".learning_rate", number_text(o.learning_rate),
                  is_too_large ? "a number that is finite in fp32" : "0, or a number that is above 0 in fp32");
  check_number("compare_options", ".clip_norm", o.clip_norm, number_range::from_zero);
  check_number("compare_options", ".dropout", o.dropout, number_range::below_one);
  check_number("compare_options", ".validation_fraction", o.validation_fraction, number_range::above_zero_to_one);
  check_count("compare_options", ".validation_tokens", o.validation_tokens, 1);
}

[[gnu::cold]] CONSTRAIN_INLINE data::corpus::parts parts_to_compare(data::corpus const& corpus,
                                                                    compare_options const& options,
                                                                    std::int64_t tokens) {
  check_comparison(options);
  // A part of n + 1 tokens has n labels. With half a text more, `split` cannot round down to fewer texts.
  auto const text_length = static_cast<double>(corpus.text_length());
  auto const texts = std::ceil((static_cast<double>(options.validation_tokens) + 1) / text_length);
  auto const share = (texts + 0.5) * text_length / static_cast<double>(corpus.size());
  auto parts = corpus.split(std::min(options.validation_fraction, share));
  auto const check = [&](char const* purpose, data::corpus const& part) {
    if (part.size() <= tokens)
      throw error({"compare: the corpus leaves ", part.size(), " of its ", counted(corpus.size(), "token"), " to ",
                   purpose, ", but a sequence of ", counted(tokens, "token"), " needs at least ", tokens + 1,
                   " tokens; give more text, or change .validation_fraction or .validation_tokens"});
  };
  check("train on", parts.train), check("validate on", parts.validation);
  return parts;
}

[[gnu::cold]] CONSTRAIN_INLINE data::examples::parts parts_to_compare(data::examples const& examples,
                                                                      compare_options const& options,
                                                                      std::int64_t tokens) {
  check_comparison(options);
  return examples.split(options.validation_fraction, 0, std::max<std::int64_t>(options.validation_tokens / tokens, 1));
}

[[gnu::cold]] CONSTRAIN_INLINE void check_comparisons_agree(communicator& world, compare_options const& o,
                                                            std::uint64_t training, std::uint64_t held_out) {
  if (world.size() == 1) return;
  fingerprint values;
  values.add(".tokens of compare_options", o.tokens.count());
  values.add(".validation_fraction of compare_options", o.validation_fraction);
  values.add(".validation_tokens of compare_options", o.validation_tokens);
  values.add_hash("the fingerprint of the training data", training);
  values.add_hash("the fingerprint of the held-out data", held_out);
  check_ranks_agree(world, joint_call::compare, values);
}

[[gnu::cold]] CONSTRAIN_INLINE run_options run_of_row(compare_options const& o) {
  return {.seed = o.seed, .clip_norm = o.clip_norm, .dropout = o.dropout, .measure_memory = true};
}

[[gnu::cold]] CONSTRAIN_INLINE void refuse_row(std::string const& name, std::string text) {
  // A row's run options are the caller's `compare_options`.
  if (auto const begin = text.find("run_options: "); begin != std::string::npos)
    text.replace(begin, std::string_view("run_options").size(), "compare_options");
  throw error({"compare, row '", name, "': ", text});
}

[[gnu::cold]] CONSTRAIN_INLINE void check_held_out(sample_set const& validation) {
  auto const wording = validation.wording();
  if (!validation.has_labels())
    throw error({"compare: the held-out part of the ", wording.name, " has no valid label, because ",
                 wording.why_unlabelled, " to predict, or change .validation_fraction or .validation_tokens"});
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE std::string table(std::vector<comparison> const& rows) {
  int width = 8;
  for (auto const& row : rows) width = std::max(width, static_cast<int>(row.name.size()));
  auto text = detail::formatted("%-*s %10s %16s %16s %9s\n", width, "strategy", "tokens/s", "planned bytes",
                                "used bytes", "loss");
  for (auto const& row : rows)
    text += detail::formatted("%-*s %10.0f %16s %16s %9.4f\n", width, printable(row.name).c_str(),
                              row.tokens_per_second, detail::grouped(row.planned_peak.count()).c_str(),
                              detail::grouped(row.used_peak.count()).c_str(), row.loss);
  return text;
}

[[gnu::cold]] CONSTRAIN_INLINE std::string json(std::vector<comparison> const& rows) {
  io::json_writer out;
  out.array();
  for (auto const& row : rows)
    out.object(io::json_layout::row)
        .member("name", row.name)
        .member("tokens_per_second", row.tokens_per_second)
        .member("planned_peak", row.planned_peak.count())
        .member("used_peak", row.used_peak.count())
        .member("loss", row.loss)
        .end();
  return out.end().text();
}

} // namespace constrain
