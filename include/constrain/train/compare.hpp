#pragma once

#include "constrain/device/cpu/stopwatch.hpp"
#include "constrain/io/json_writer.hpp"
#include "constrain/train/fit.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// What every row of a comparison has in common.
struct compare_options {
  token_count tokens = 100'000;   // each row trains on as many, rounded up to whole steps
  double learning_rate = 0;       // 0: the optimizer's own default
  double clip_norm = 0;           // largest norm of all gradients together; 0: no clipping
  double dropout = 0;             // probability with which ct::dropout zeroes an element
  std::uint64_t seed = 0;         // of the first weights, the order of samples and dropout
  double validation_fraction = 0.02; // of the corpus, its tail: what `loss` is measured on
  std::int64_t validation_tokens = 16'384; // at most
};

/// One strategy, measured.
struct comparison {
  std::string name;             // of the set of policies
  double tokens_per_second = 0; // of the median step
  bytes planned_peak;           // of the arena
  bytes used_peak;              // up to the last byte of the arena that was touched
  double loss = 0;              // on the validation part, after the same tokens
};

namespace detail {

template <class task, class set> struct trainer_with;
template <class task, class... list> struct trainer_with<task, policies<list...>> {
  using type = trainer<task, list...>;
};

template <class trainer> comparison measure(data::corpus const& train, data::corpus const& validation, compare_options const& options) {
  typename trainer::hyper hyper;
  if constexpr (requires { hyper.learning_rate; })
    if (options.learning_rate > 0) hyper.learning_rate = static_cast<decltype(hyper.learning_rate)>(options.learning_rate);
  trainer t(hyper, {.seed = options.seed, .clip_norm = options.clip_norm, .dropout = options.dropout, .measure_memory = true});
  std::vector<double> seconds;
  auto const steps = (options.tokens.count() + trainer::window_tokens - 1) / trainer::window_tokens;
  for (auto const& window : t.windows(train)) {
    if (static_cast<std::int64_t>(seconds.size()) == steps) break;
    stopwatch const since_began;
    t.step(window);
    seconds.push_back(since_began.seconds());
  }
  comparison row;
  row.name = trainer::policy_set::name();
  row.loss = t.evaluate(validation).loss;
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  if (!seconds.empty()) row.tokens_per_second = static_cast<double>(trainer::window_tokens) / seconds[seconds.size() / 2];
  row.planned_peak = trainer::memory.peak;
  row.used_peak = t.used_bytes();
  return row;
}

} // namespace detail

/// Trains the same task with each set of policies on the same tokens, one after another, and measures speed, memory
/// and loss: `compare<task, policies<precision::fp32>, policies<checkpoint::every<1>>>(corpus, {.tokens = 100'000})`.
template <class task, class... sets> std::vector<comparison> compare(data::corpus const& corpus, compare_options const& options = {}) {
  auto const share = static_cast<double>(options.validation_tokens + 1) / static_cast<double>(corpus.size());
  auto const parts = corpus.split(std::min(options.validation_fraction, share));
  return {detail::measure<typename detail::trainer_with<task, sets>::type>(parts.train, parts.validation, options)...};
}

/// The rows as a table for people.
inline std::string table(std::vector<comparison> const& rows) {
  std::string text = detail::formatted("%-46s %10s %14s %14s %9s\n", "policies", "tokens/s", "planned bytes", "used bytes", "loss");
  for (auto const& row : rows)
    text += detail::formatted("%-46s %10.0f %14s %14s %9.4f\n", row.name.c_str(), row.tokens_per_second,
                              detail::grouped(row.planned_peak.count()).c_str(), detail::grouped(row.used_peak.count()).c_str(), row.loss);
  return text;
}

/// The rows as JSON for programs.
inline std::string json(std::vector<comparison> const& rows) {
  io::json_writer out;
  out.array();
  for (auto const& row : rows)
    out.object(io::json_layout::row).member("name", row.name).member("tokens_per_second", row.tokens_per_second)
        .member("planned_peak", row.planned_peak.count()).member("used_peak", row.used_peak.count())
        .member("loss", row.loss).end();
  return out.end().text();
}

} // namespace constrain
