#pragma once

#include "constrain/fit/summary.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/formatted.hpp"
#include "constrain/base/number_text.hpp"
#include "constrain/device/math.hpp"

#include <string_view>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Whether to show the rate of valid labels too: true if it is more than 0.05 % below the rate of tokens, because some
/// labels are ignored or there are fewer labels than tokens.
CONSTRAIN_INLINE bool has_two_rates(fit_result const& r) { return r.labels_per_second < 0.9995 * r.tokens_per_second; }

[[gnu::cold]] CONSTRAIN_INLINE std::vector<metric> metrics_of(evaluation const& e,
                                                              std::vector<named_evaluation> const& further,
                                                              bool counts_correct) {
  std::vector<metric> result;
  auto const add = [&](std::string const& set, std::string_view name, double value) {
    result.push_back({concat({set, name}), value});
  };
  for (auto const& m : e.metrics) add("", m.name, m.value);
  for (auto const& evaluated : further) {
    auto const set = concat({evaluated.name, "/"});
    add(set, "loss", evaluated.result.loss);
    if (counts_correct) add(set, "accuracy", evaluated.result.accuracy);
    for (auto const& m : evaluated.result.metrics) add(set, m.name, m.value);
  }
  return result;
}

/// `metrics_of` the evaluation in `r`; empty if there is none.
[[gnu::cold]] CONSTRAIN_INLINE std::vector<metric> last_metrics(trainer_facts const& t, fit_result const& r) {
  return r.validation ? metrics_of(*r.validation, r.further_validation, t.counts_correct) : std::vector<metric>();
}

[[gnu::cold]] CONSTRAIN_INLINE std::string evaluation_text(evaluation const& e, bool counts_correct) {
  auto text = formatted("validation loss %.4f", e.loss);
  if (counts_correct) text += formatted(" | perplexity %.2f | accuracy %.3f", e.perplexity, e.accuracy);
  for (auto const& m : e.metrics) text += concat({" | ", m.name, formatted(" %.3f", m.value)});
  return text;
}

[[gnu::cold]] CONSTRAIN_INLINE io::json_writer summary_of(trainer_facts const& t, fit_result const& r,
                                                          std::vector<metric> const& metrics) {
  io::json_writer json;
  json.object().member("policies", t.policies).member("parameters", t.parameter_count);
  json.member("peak_bytes", t.memory.peak.count()).member("seed", t.state.seed);
  json.member("steps", r.steps.count()).member("loss", r.loss).member("skipped", r.skipped);
  json.member("seconds", r.seconds)
      .member("tokens_per_second", r.tokens_per_second)
      .member("labels_per_second", r.labels_per_second);
  if (r.validation) json.member("validation_loss", r.validation->loss);
  if (r.validation && t.counts_correct)
    json.member("perplexity", r.validation->perplexity).member("accuracy", r.validation->accuracy);
  write_metrics(json, last_metrics(t, r), "validation_metrics");
  if (math::finite(t.state.best_validation_loss)) json.member("best_validation_loss", t.state.best_validation_loss);
  write_metrics(json, metrics);
  return json.member("stop_reason", reason_of(r.stop_reason)).end(), json;
}

[[gnu::cold]] CONSTRAIN_INLINE std::string ending(trainer_facts const& t, fit_result const& r,
                                                  std::string const& directory) {
  auto text =
      formatted("stopped after step %lld: %s", static_cast<long long>(r.steps.count()), reason_of(r.stop_reason));
  if (r.tokens_per_second == 0) return text; // this call to `fit` took no step
  text += formatted(" | %.0f s | ", r.seconds);
  if (r.share_of_peak > 0) text += formatted("%.0f %% of peak | ", r.share_of_peak * 100);
  text += formatted("%.0f tok/s | ", r.tokens_per_second);
  if (has_two_rates(r)) text += formatted("%.0f labels/s | ", r.labels_per_second);
  text += formatted("loss %.4f", r.loss);
  if (r.validation)
    text += formatted(" | validation loss %.4f, lowest %.4f", r.validation->loss, t.state.best_validation_loss);
  if (r.skipped > 0) text += concat({" | ", counted(r.skipped, "step"), " skipped"});
  text += concat({" | memory ", bytes_text(t.memory.peak)});
  return directory.empty() ? text : concat({text, " | saved in '", directory, "'"});
}

[[gnu::cold]] CONSTRAIN_INLINE report_head head_of(trainer_facts const& t, fit_result const& r) {
  auto const number = [](double x) { return formatted("%.4g", x); };
  auto const integer = [](double x) { return grouped(static_cast<std::int64_t>(x)); };
  report_head head{t.policies, {}, t.memory};
  auto const add_fact = [&](char const* name, std::string value) { head.facts.push_back({name, std::move(value)}); };
  add_fact("parameters", grouped(t.parameter_count)), add_fact("steps", grouped(r.steps.count()));
  add_fact("tokens a step", grouped(t.batch_tokens * t.data_ranks)), add_fact("loss of the last step", number(r.loss));
  if (r.validation) add_fact("validation loss", number(r.validation->loss));
  if (r.validation && t.counts_correct) {
    add_fact("perplexity", number(r.validation->perplexity));
    add_fact("validation accuracy", number(r.validation->accuracy));
  }
  for (auto const& m : last_metrics(t, r)) add_fact(("validation " + m.name).c_str(), number(m.value));
  if (math::finite(t.state.best_validation_loss))
    add_fact("lowest validation loss", number(t.state.best_validation_loss));
  if (r.share_of_peak > 0) add_fact("share of the processor's peak", number(r.share_of_peak));
  add_fact("tokens per second", integer(r.tokens_per_second));
  if (has_two_rates(r)) add_fact("valid labels per second", integer(r.labels_per_second));
  add_fact("skipped steps", grouped(r.skipped));
  add_fact("seed", concat({t.state.seed})), add_fact("stop reason", reason_of(r.stop_reason));
  return head;
}

} // namespace constrain::detail
