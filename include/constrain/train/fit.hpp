#pragma once

#include "constrain/device/cpu/arithmetic_peak.hpp"
#include "constrain/device/cpu/stopwatch.hpp"
#include "constrain/train/checkpoint/checkpoint_series.hpp"
#include "constrain/train/interruption.hpp"
#include "constrain/train/interval.hpp"
#include "constrain/train/progress.hpp"
#include "constrain/train/record/records.hpp"
#include "constrain/train/record/report.hpp"
#include "constrain/train/trainer.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// How long `fit` trains and what it does on the way.
struct fit_options {
  optimizer_steps steps = 100;            // of the whole run, resumed ones included
  data::corpus const* validation = nullptr; // what is evaluated; null: nothing is
  interval evaluate_every = 0;            // with a validation corpus; 0: at the end alone
  std::string directory{};                // of the checkpoint; none is saved where it is empty
  interval save_every = 0;                // with a directory; 0: at the end alone
  std::FILE* log = stdout;                // null: silent
  std::int64_t keep_last = 0;             // so many checkpoints, each in directory/step-<n>; 0: one, in the directory itself
  std::string best{};                     // of the checkpoint with the lowest validation loss; none where it is empty
  bool load_best = false;                 // its weights, at the end
  std::int64_t patience = 0;              // evaluations in a row without a lower loss that end the run; 0: none do
  std::int64_t plateau = 0;               // evaluations in a row without a lower loss that scale the learning rate; 0: none do
  double plateau_factor = 0.1;            // by this
  data::tail tail = data::tail::carried;  // what becomes of an epoch's samples that fill no window
  std::string records{};                  // directory of steps.jsonl, steps.csv, TensorBoard's events, summary.json, report.html
};

/// Why a run ended.
enum class ended : std::uint8_t { all_steps, no_improvement, interrupted, by_callback };

/// What came of it.
struct fit_result {
  optimizer_steps steps = 0;              // of the whole run, resumed ones included
  double loss = 0;                        // of the last step
  std::optional<evaluation> validation{}; // the last one
  double seconds = 0;                     // of this call
  double tokens_per_second = 0;           // of training, waiting for data included, evaluation and saving left out
  double share_of_peak = 0;               // its FLOPs a second, of what the processor can do at most in fp32 (a fp64 trainer: in
                                          // fp64); 0 on a GPU
  std::int64_t skipped = 0;               // steps whose gradient was not finite
  constrain::ended why = ended::all_steps; // why it ended
};

/// For `fit`: nothing happens after a step.
struct no_callback {
  void operator()(step_result const&) const {}
};

namespace detail {

inline char const* reason_of(ended why) {
  switch (why) {
  case ended::no_improvement: return "the validation loss does not fall any more";
  case ended::interrupted: return "a signal asked for it";
  case ended::by_callback: return "the callback asked for it";
  default: return "all steps are done";
  }
}

/// What an evaluation would refuse is better known now than after hours.
template <class trainer> void check_validation(data::corpus const& validation) {
  check_vocabulary(validation.vocabulary(), trainer::entries::vocabulary);
  auto const tokens = trainer::task::tokens;
  if (validation.labels(1, data::samples(validation.size(), tokens) * tokens) == 0)
    throw error("fit: the .validation corpus has no label, everything in it is given; give some text to predict");
}

template <class trainer> io::json_writer summary_of(trainer const& t, fit_result const& r) {
  io::json_writer json;
  json.object().member("policies", trainer::policy_set::name()).member("parameters", trainer::parameter_count);
  json.member("peak_bytes", trainer::memory.peak.count()).member("seed", t.state().seed);
  json.member("steps", r.steps.count()).member("loss", r.loss).member("skipped", r.skipped);
  json.member("seconds", r.seconds).member("tokens_per_second", r.tokens_per_second);
  if (r.validation)
    json.member("validation_loss", r.validation->loss).member("perplexity", r.validation->perplexity).member("accuracy", r.validation->accuracy);
  if (math::finite(t.state().best_validation_loss)) json.member("best_validation_loss", t.state().best_validation_loss);
  return json.member("ended", reason_of(r.why)).end(), json;
}

/// The same in words.
template <class trainer> std::string ending(trainer const& t, fit_result const& r, std::string const& directory) {
  auto text = formatted("ended after step %lld: %s", static_cast<long long>(r.steps.count()), reason_of(r.why));
  if (r.tokens_per_second == 0) return text; // there was nothing left to do
  text += formatted(" | %.0f s | ", r.seconds);
  if (r.share_of_peak > 0) text += formatted("%.0f %% of peak | ", r.share_of_peak * 100);
  text += formatted("%.0f tok/s | loss %.4f", r.tokens_per_second, r.loss);
  if (r.validation) text += formatted(" | validation loss %.4f, lowest %.4f", r.validation->loss, t.state().best_validation_loss);
  if (r.skipped > 0) text += formatted(" | %lld steps skipped", static_cast<long long>(r.skipped));
  text += " | memory " + bytes_text(trainer::memory.peak);
  return directory.empty() ? text : text + " | saved in '" + directory + "'";
}

template <class trainer> report_head head_of(trainer const& t, fit_result const& r) {
  auto const number = [](double x) { return formatted("%.4g", x); };
  report_head head{trainer::policy_set::name(), {}, trainer::memory};
  auto const fact = [&](char const* name, std::string value) { head.facts.emplace_back(name, std::move(value)); };
  fact("parameters", grouped(trainer::parameter_count)), fact("steps", grouped(r.steps.count()));
  fact("tokens a step", grouped(trainer::window_tokens * t.ranks())), fact("loss of the last step", number(r.loss));
  if (r.validation) fact("validation loss", number(r.validation->loss)), fact("perplexity", number(r.validation->perplexity));
  if (math::finite(t.state().best_validation_loss)) fact("lowest validation loss", number(t.state().best_validation_loss));
  if (r.share_of_peak > 0) fact("share of the processor's peak", number(r.share_of_peak));
  fact("tokens per second", number(r.tokens_per_second)), fact("skipped steps", grouped(r.skipped));
  fact("seed", std::to_string(t.state().seed)), fact("ended because", reason_of(r.why));
  return head;
}

} // namespace detail

/// Trains on a corpus: a line a step, validation, checkpoints and records where they are asked for. The same as an own
/// loop over `windows` and `step`, with the same memory. SIGINT and SIGTERM end it after the step, or amid an
/// evaluation, with the checkpoint saved. `after_step` is called with every step's result; where it returns false, that
/// was the last one.
template <class trainer, class callback = no_callback>
fit_result fit(trainer& t, data::corpus const& corpus, fit_options options = {}, callback const& after_step = {}) {
  bool const speaks = t.rank() == 0; // one process speaks for all
  if (!speaks) options.log = nullptr;
  auto const due = [&](interval const& every) { return every.due(t.steps().count(), options.steps.count()); };
  stopwatch const since_start;
  auto const first_step = t.steps();
  fit_result result;
  double training_seconds = 0;
  std::int64_t tokens = 0;
  auto const needs_validation = [&](bool asked, char const* what) {
    if (asked && options.validation == nullptr)
      throw error(std::string("fit: ") + what + ", but there is no .validation; give one");
  };
  needs_validation(!options.best.empty(), ".best keeps the checkpoint of the lowest validation loss");
  needs_validation(options.patience > 0, ".patience counts evaluations");
  needs_validation(options.plateau > 0, ".plateau counts evaluations");
  if (options.validation != nullptr) detail::check_validation<trainer>(*options.validation);
  if (options.load_best && options.best.empty())
    throw error("fit: .load_best loads the checkpoint that .best names, but that is empty; name a directory");
  checkpoint_series const series(options.directory);
  auto const save = [&] {
    auto const step = t.steps().count();
    t.save(options.keep_last > 0 ? series.path(step) : options.directory);
    if (options.keep_last > 0 && speaks) series.keep(options.keep_last, step);
  };
  // A directory that cannot be written is better known now than after hours.
  if (speaks && !options.directory.empty())
    io::directory_writer{options.keep_last > 0 ? series.path(options.steps.count()) : options.directory};
  if (speaks && !options.best.empty()) io::directory_writer{options.best};
  std::optional<constrain::records> records;
  if (!options.records.empty() && speaks) records.emplace(options.records, t.steps().count());
  using device = typename trainer::policy_set::device;
  double peak = 0;
  if constexpr (!device::is_cuda) peak = arithmetic_peak<typename trainer::real>();
  auto const share_of_peak = [&](double seconds) { return peak > 0 ? trainer::flops / (seconds * peak) : 0; };
  if (options.log != nullptr) detail::print_start(options.log, t, peak);
  detail::step_lines lines(options.log);
  interruption const signal;
  auto const interrupted = [&] { return t.in_any_rank(signal.noted()); };
  bool done = t.steps() >= options.steps;
  auto const end = [&](ended why) {
    if (!done) result.why = why;
    done = true;
  };

  auto const evaluate = [&](step_record& record) {
    auto const found = t.evaluate(*options.validation, interrupted);
    if (!found) return end(ended::interrupted);
    result.validation = found;
    record.validation_loss = found->loss, record.accuracy = found->accuracy;
    lines.line("step %lld | validation loss %.4f | perplexity %.2f | accuracy %.3f",
               static_cast<long long>(t.steps().count()), found->loss, found->perplexity, found->accuracy);
    if (t.note_validation(found->loss)) {
      if (!options.best.empty()) t.save(options.best);
      return;
    }
    auto const since_best = t.state().evaluations_since_best;
    if (options.plateau > 0 && since_best % options.plateau == 0) t.scale_learning_rate(options.plateau_factor);
    if (options.patience > 0 && since_best >= options.patience) end(ended::no_improvement);
  };
  stopwatch since_asked; // for a window
  if (!done)
    for (auto const& window : t.windows(corpus, options.tail)) {
      step_record record{.learning_rate = t.learning_rate()};
      stopwatch const since_began;
      auto const r = t.step(window);
      record.seconds = since_began.seconds();
      training_seconds += since_asked.seconds();
      tokens += trainer::window_tokens * t.ranks();
      result.loss = r.loss;
      result.skipped += r.skipped ? 1 : 0;
      result.tokens_per_second = static_cast<double>(tokens) / training_seconds;
      record.step = t.steps().count();
      record.loss = r.loss, record.gradient_norm = r.gradient_norm, record.tokens = r.tokens, record.skipped = r.skipped;
      record.tokens_per_second = result.tokens_per_second;
      auto const mean_seconds = training_seconds / static_cast<double>(record.step - first_step.count());
      result.share_of_peak = share_of_peak(mean_seconds);
      lines.step(record, options.steps.count(), mean_seconds * static_cast<double>(options.steps.count() - record.step),
                 share_of_peak(record.seconds));
      if (r.skipped) lines.line("skipped: the gradient of %s is not finite", std::string(r.not_finite).c_str());
      if constexpr (std::is_void_v<decltype(after_step(r))>) after_step(r);
      else if (!after_step(r)) end(ended::by_callback);
      if (interrupted()) end(ended::interrupted);
      if (t.steps() >= options.steps) end(ended::all_steps);
      bool const evaluates = options.validation != nullptr && result.why != ended::interrupted && (due(options.evaluate_every) || done);
      if (evaluates) evaluate(record);
      record.saved = !options.directory.empty() && (due(options.save_every) || done);
      record.resumed = first_step > 0 && record.step == first_step.count() + 1;
      if (records) records->write(record);
      if (record.saved) save();
      if (done) break;
      since_asked = {};
    }
  if (options.load_best && io::directory_reader::finds(options.best)) t.load_pretrained(options.best);
  result.steps = t.steps();
  result.seconds = since_start.seconds();
  if (records) {
    records->write_file("summary.json", detail::summary_of(t, result).text() + "\n");
    records->write_file("report.html", report(detail::head_of(t, result), records->steps()));
  }
  lines.line(detail::ending(t, result, options.directory).c_str());
  return result;
}

} // namespace constrain
