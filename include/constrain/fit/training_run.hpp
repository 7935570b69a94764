#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/comm/agreement.hpp"
#include "constrain/device/cpu/arithmetic_peak.hpp"
#include "constrain/device/cpu/stopwatch.hpp"
#include "constrain/fit/callbacks.hpp"
#include "constrain/fit/epochs.hpp"
#include "constrain/fit/interruption.hpp"
#include "constrain/fit/load_best.hpp"
#include "constrain/fit/options.hpp"
#include "constrain/fit/progress.hpp"
#include "constrain/fit/record/records.hpp"
#include "constrain/fit/record/report.hpp"
#include "constrain/fit/record/settings_of.hpp"
#include "constrain/fit/summary.hpp"
#include "constrain/fit/trainer_facts.hpp"
#include "constrain/fit/validation_samples.hpp"
#include "constrain/io/directory_writer.hpp"
#include "constrain/train/agreement.hpp"
#include "constrain/train/batches.hpp"
#include "constrain/train/saved/output_directories.hpp"
#include "constrain/train/saved/saved_series.hpp"
#include "constrain/train/step_ticket.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// One call to `fit`, with a function per phase. The constructor's arguments must outlive this object.
template <class trainer, class dataset> class training_run {
public:
  [[gnu::cold]] training_run(trainer& t, dataset const& d, fit_options const& options, fit_callbacks const& callbacks)
      : t_(t), data_(d), options_(options), callbacks_(callbacks), is_rank_0_(t.rank() == 0),
        first_step_(t.steps().count()), lines_(is_rank_0_ ? options.log : nullptr), series_(options.directory) {}

  /// Runs all phases. Collective. Throws the errors of `fit`; if only some ranks throw, the job is aborted.
  [[gnu::noinline, gnu::cold]] fit_result run() try {
    detail::check_fits_agree(t_, options_, &data_);
    agreed(t_.world(), joint_call::fit, [&] {
      check();
      if (is_rank_0_) prepare_outputs();
    });
    interruption const signal;
    signal_ = &signal;
    if (start() && misses_evaluation()) make_up_for_evaluation();
    if (!is_done_) train();
    end();
    return context_.result;
  } catch (...) { rethrow_or_end_job(t_.world(), joint_call::fit); }

private:
  /// Checks options and data before the first step, so that an error does not appear hours later. Sets `samples_`,
  /// `validation_`, `further_validation_`, `steps_` and `is_done_`, and the stop reason if `.patience` is already
  /// exhausted.
  [[gnu::noinline, gnu::cold]] void check() {
    check_fit_options(options_);
    if (options_.validation != nullptr)
      validation_ = validation_samples<trainer, dataset>(options_.validation, ".validation");
    for (auto const& set : options_.further_validation)
      further_validation_.push_back(
          validation_samples<trainer, dataset>(set.data, concat({".further_validation '", set.name, "'"})));
    samples_ = samples_of<trainer, true>("fit", data_);
    bool const by_epochs = options_.epochs > 0, by_steps = options_.steps >= 0;
    steps_ = by_steps ? options_.steps.count() : by_epochs ? std::numeric_limits<std::int64_t>::max() : 100;
    if (by_epochs)
      steps_ =
          std::min(steps_, constrain::steps_of_epochs(t_, options_.epochs, samples_, options_.tail, steps_, "fit"));
    is_done_ = first_step_ >= steps_;
    bool const is_same_data =
        t_.state().corpus == samples_.fingerprint() && !has_other_validation(t_.state(), validation_.fingerprint());
    bool const has_ended = is_same_data && has_lost_patience() && !misses_evaluation();
    if (!is_done_ && has_ended) end_run(stop_reason::no_improvement);
    if (!is_done_) t_.batches(samples_, options_.tail, "fit"); // throws if there is no batch
  }

  /// Checks that all outputs can be written and removes what interrupted saves left beside them, even if the run is
  /// complete. Opens the records if a step is to be taken. Called only on rank 0.
  [[gnu::noinline, gnu::cold]] void prepare_outputs() {
    check_output_directories(options_.directory, options_.keep_last, options_.best, options_.records);
    if (!options_.directory.empty()) io::directory_writer{path_to_save(steps_)};
    // A directory of a later step that cannot be replaced, such as another user's, would make that step's save fail.
    for (auto const step : options_.keep_last > 0 ? series_.steps() : std::vector<std::int64_t>{})
      if (step > first_step_ && step < steps_) io::directory_writer{path_to_save(step)};
    if (!options_.best.empty()) io::directory_writer{options_.best};
    if (!options_.records.empty() && !is_done_) records_.emplace(options_.records, first_step_);
  }

  /// Measures the processor's peak (not on a GPU), prints the header (on rank 0) and calls on_start. Returns false if a
  /// callback or a signal has ended the run.
  [[gnu::noinline, gnu::cold]] bool start() {
    using device = typename trainer::policy_set::device;
    if constexpr (!device::value.is_cuda) peak_ = arithmetic_peak<typename trainer::real>();
    if (is_rank_0_ && options_.log) print_start(options_.log, detail::facts_of(t_), peak_, samples_.fingerprint());
    context_.steps = steps_, context_.first_step = first_step_;
    call(callbacks_.start);
    return !end_if_requested();
  }

  /// Whether a signal prevented the evaluation after the last step, and the validation data is still the same.
  bool misses_evaluation() const {
    return options_.validation != nullptr && first_step_ > 0 && t_.state().missed_evaluation == first_step_ &&
           !has_other_validation(t_.state(), validation_.fingerprint());
  }

  /// Makes up for the missed evaluation, so that a resumed run equals an uninterrupted one. Saves the run to
  /// `.directory` (if set) if no step follows. Does not change the record of the last step.
  [[gnu::cold]] void make_up_for_evaluation() {
    step_record record{.step = first_step_};
    t_.begin_validation(validation_.fingerprint());
    if (evaluate(record) && is_done_ && !options_.directory.empty()) save(path_to_save(first_step_));
  }

  /// Takes steps until `is_done_`, with the evaluations and the saves that are due.
  [[gnu::cold]] void train() {
    if (options_.validation != nullptr) t_.begin_validation(validation_.fingerprint());
    // Starts when the next batch is requested or, if results are read one step late, when the previous result has been
    // read. Includes the wait for data, but not callbacks, evaluation or saving.
    stopwatch step_time;
    [[maybe_unused]] std::optional<started_step> pending; // the previous step, if its result has not been read
    for (auto const& batch : t_.batches(samples_, options_.tail, "fit")) {
      auto started = start_step(batch);
      if constexpr (may_overlap) {
        if (pending) finish(*pending, step_time), step_time = {}, pending.reset();
        if (can_overlap(started.record.step)) {
          pending.emplace(std::move(started));
          continue;
        }
      }
      finish(started, step_time);
      auto& record = started.record;
      call(callbacks_.step);
      end_if_requested();
      if (record.step >= steps_) end_run(stop_reason::all_steps);
      bool const is_due = options_.evaluate_every.due(record.step, steps_) || record.step >= steps_;
      if (options_.validation != nullptr && (is_due || is_done_) && !evaluate(record) && is_due)
        t_.note_missed_evaluation();
      record_and_save(record);
      if (is_done_) break;
      step_time = {};
    }
  }

  /// A step that has been started, and the part of its record that is known before its result.
  struct started_step {
    step_record record{};    // without the values of the result
    double loss_scale = 0;   // of this step; 0: the precision has none
    stopwatch since_began{}; // started before the step was enqueued
    step_ticket ticket{};    // gives the result
  };

  /// Whether the result of a step may be read after the next step is enqueued: true on a CUDA device, unless the next
  /// step depends on the result (precision::fp16).
  static constexpr bool may_overlap =
      trainer::policy_set::device::value.is_cuda && !trainer::policy_set::precision::value.loss_scale;

  /// Whether the result of step `step` (the last one enqueued) can be read one step late, because nothing reads the
  /// trainer's state between this step and the next one. Collective.
  bool can_overlap(std::int64_t step) {
    bool const is_watched = callbacks_.step != nullptr || records_.has_value(); // `step` is set if any callback is
    auto const due = [&](interval const& event) { return event.due(step, steps_); };
    bool const reads_state = step >= steps_ || (options_.validation != nullptr && due(options_.evaluate_every)) ||
                             (!options_.directory.empty() && due(options_.save_every));
    return !t_.in_any_rank(is_watched || reads_state || signal_->noted());
  }

  /// Enqueues a step with `batch`. Its record gets the learning rate and, with `.records`, the settings of the step.
  [[gnu::cold]] started_step start_step(constrain::batch const& batch) {
    started_step started{.record = {.learning_rate = t_.learning_rate()}};
    if constexpr (trainer::entries::parameters.settings_size > 0)
      if (records_) started.record.settings = detail::settings_of(t_);
    if constexpr (trainer::policy_set::precision::value.loss_scale) started.loss_scale = t_.setting("loss_scale");
    started.since_began = {};
    started.ticket = t_.enqueue(batch);
    started.record.step = t_.steps().count();
    return started;
  }

  /// Waits for a step, completes its record and, if its progress line is due, prints the line. `step_time`: counts the
  /// time that this step adds to `training_seconds_`, with the wait for data.
  [[gnu::cold]] void finish(started_step& started, stopwatch const& step_time) {
    auto& record = started.record;
    auto const& r = context_.last = started.ticket.wait();
    record.seconds = started.since_began.seconds();
    // A step that was enqueued early does not count the time before the end of the previous step.
    if (since_finished_) record.seconds = std::min(record.seconds, since_finished_->seconds());
    since_finished_.emplace();
    training_seconds_ += step_time.seconds();
    tokens_ += trainer::batch_tokens * t_.data_ranks(), labels_ += r.tokens;
    auto& result = context_.result;
    result.loss = r.loss;
    result.skipped += r.skipped ? 1 : 0;
    record.tokens_per_second = result.tokens_per_second = static_cast<double>(tokens_) / training_seconds_;
    record.labels_per_second = result.labels_per_second = static_cast<double>(labels_) / training_seconds_;
    record.loss = r.loss, record.gradient_norm = r.gradient_norm, record.tokens = r.tokens, record.skipped = r.skipped;
    record.resumed = first_step_ > 0 && record.step == first_step_ + 1;
    auto const mean_seconds = training_seconds_ / static_cast<double>(record.step - first_step_);
    result.share_of_peak = share_of_peak(mean_seconds);
    if (options_.log_every.due(record.step, steps_))
      lines_.step(record, steps_, mean_seconds * static_cast<double>(steps_ - record.step),
                  share_of_peak(record.seconds), started.loss_scale);
    if (r.skipped || !r.not_finite.empty()) lines_.line("%s", skipped_text(r).c_str());
  }

  /// The FLOP/s of a step of this duration as a share of `peak_`; 0: unknown.
  double share_of_peak(double seconds) const { return peak_ > 0 ? trainer::flops / (seconds * peak_) : 0; }

  /// Evaluates all validation sets after the step of `record`, calls on_evaluation, and acts on the loss: saves to
  /// `.best`, scales the learning rate or ends the run. If a signal has interrupted the run or interrupts the
  /// evaluation, ends the run without results of this evaluation, and returns false.
  [[gnu::noinline, gnu::cold]] bool evaluate(step_record& record) {
    if (context_.result.stop_reason == stop_reason::interrupted) return false;
    auto const interrupted = [&] { return t_.in_any_rank(signal_->noted()); };
    auto validation = t_.evaluate(validation_, interrupted);
    std::vector<named_evaluation> further;
    for (std::size_t i = 0; validation && i < further_validation_.size(); ++i)
      if (auto const further_evaluation = t_.evaluate(further_validation_[i], interrupted))
        further.push_back({options_.further_validation[i].name, *further_evaluation});
      else validation.reset();
    if (!validation) return end_run(stop_reason::interrupted), false;
    validation->loss = broadcast_from_rank_0(t_.world(), validation->loss); // so that all ranks make the same decisions
    context_.validation = context_.result.validation = validation;
    context_.further_validation = context_.result.further_validation = further;
    record.validation_loss = validation->loss;
    if constexpr (trainer::entries::counts_correct) record.accuracy = validation->accuracy;
    constexpr bool classifies = trainer::entries::counts_correct;
    record.validation_metrics = metrics_of(*validation, further, classifies);
    auto const print = [&](std::string const& set, evaluation const& e) {
      lines_.line("step %lld | %s%s", static_cast<long long>(record.step), set.c_str(),
                  evaluation_text(e, classifies).c_str());
    };
    print("", *validation);
    for (auto const& further_evaluation : further)
      print(concat({further_evaluation.name, ": "}), further_evaluation.result);
    bool const best = t_.note_validation(validation->loss);
    auto const since_best = t_.state().evaluations_since_best; // a callback may load the best run
    call(callbacks_.evaluation);
    end_if_requested();
    if (best) {
      if (!options_.best.empty()) save(options_.best);
      return true;
    }
    if (options_.plateau > 0 && since_best % options_.plateau == 0) t_.scale_learning_rate(options_.plateau_factor);
    if (has_lost_patience()) end_run(stop_reason::no_improvement);
    return true;
  }

  bool has_lost_patience() const {
    return options_.patience > 0 && t_.state().evaluations_since_best >= options_.patience;
  }

  /// Writes the step's record, then saves the run to `.directory` if that is due, and removes old saved runs. Because
  /// of this order, a run resumed from `.directory` finds the record of the step after which it was saved.
  void record_and_save(step_record& record) {
    record.saved = !options_.directory.empty() && (is_done_ || options_.save_every.due(record.step, steps_));
    record.metrics = context_.take_metrics();
    if (records_) records_->write(record);
    if (!record.saved) return;
    save(path_to_save(record.step));
    if (options_.keep_last > 0 && is_rank_0_) series_.remove_old(options_.keep_last, record.step);
  }

  /// The directory to save the run to after step `step`: `.directory` or, with `.keep_last`, a directory inside it.
  [[gnu::noinline, gnu::cold]] std::string path_to_save(std::int64_t step) const {
    return options_.keep_last > 0 ? series_.path_to_save(step) : options_.directory;
  }

  /// Saves the run to `directory` and calls on_save. Collective.
  [[gnu::noinline, gnu::cold]] void save(std::string const& directory) {
    t_.save(directory, {.max_shard_size = options_.max_shard_size});
    context_.saved = directory;
    call(callbacks_.save);
    end_if_requested();
  }

  /// Removes old saved runs; loads the best weights (`.load_best`) unless a signal ended the run; calls on_end; writes
  /// summary.json and report.html (`.records`) if this call took a step; and prints the last line of the log.
  [[gnu::noinline, gnu::cold]] void end() {
    if (options_.keep_last > 0 && is_rank_0_) series_.remove_old(options_.keep_last, t_.steps().count());
    auto const is_over = context_.result.stop_reason != stop_reason::interrupted; // else a resumed run loads them
    if (options_.load_best && is_over) detail::load_best(t_, options_.best);
    context_.result.steps = t_.steps(), context_.result.seconds = since_start_.seconds();
    call(callbacks_.end);
    end_if_requested(); // a signal since the last step is reported, too
    // Without a step, the result would replace the loss and the rates of the run's last step with 0.
    if (records_ && context_.result.steps.count() > first_step_) write_summary();
    lines_.line("%s", ending(detail::facts_of(t_), context_.result, options_.directory).c_str());
  }

  [[gnu::noinline, gnu::cold]] void write_summary() {
    auto const facts = detail::facts_of(t_);
    records_->write_file("summary.json",
                         concat({summary_of(facts, context_.result, context_.take_metrics()).text(), "\n"}));
    records_->write_file("report.html", report(head_of(facts, context_.result), records_->steps()));
  }

  /// Calls `f`, unless it is null, with the current step and epoch in the context.
  void call(fit_callbacks::function f) {
    if (f == nullptr) return;
    auto const step = context_.step = t_.steps();
    auto const read = t_.state().corpus == samples_.fingerprint() ? t_.state().position : data::position{};
    context_.epoch =
        static_cast<double>(read.epoch) + static_cast<double>(read.sample) / static_cast<double>(samples_.size());
    run_user_code([&] { f(callbacks_.object, context_); });
    if (t_.steps() != step && f != callbacks_.end)
      throw error("fit: a callback has taken a step or loaded a run; do so before or after `fit`, or in on_end");
  }

  /// Ends the run before the next step. The first reason is kept, but a signal, which the caller must know of, wins.
  void end_run(stop_reason reason) {
    if (!is_done_ || reason == stop_reason::interrupted) context_.result.stop_reason = reason;
    is_done_ = true;
  }
  /// Ends the run on all ranks if a callback or a signal on any rank asks for it; returns whether one does. Collective.
  bool end_if_requested() {
    constexpr std::int64_t callback = 1 << 20; // above the largest possible number of interrupted ranks
    auto const requests =
        agree(t_.world(), joint_call::fit, (context_.stops() ? callback : 0) + (signal_->noted() ? 1 : 0));
    if (requests != 0) end_run(requests % callback != 0 ? stop_reason::interrupted : stop_reason::by_callback);
    return requests != 0;
  }

  trainer& t_;
  dataset const& data_;
  sample_set samples_{}, validation_{};          // samples of `data_` and of `.validation`
  std::vector<sample_set> further_validation_{}; // samples of `.further_validation`
  fit_options const& options_;
  fit_callbacks const& callbacks_;
  bool const is_rank_0_;          // rank 0 logs, writes records and removes old saved runs
  std::int64_t const first_step_; // steps done before this call
  std::int64_t steps_ = 0;        // steps of the whole run, including those before this call
  bool is_done_ = false;
  fit_context context_{};
  step_lines lines_;
  saved_series const series_;
  std::optional<constrain::records> records_{};
  interruption const* signal_ = nullptr; // points to a local object of `run`
  stopwatch const since_start_{};
  std::optional<stopwatch> since_finished_{}; // started when the result of the last step was read
  double peak_ = 0, training_seconds_ = 0; // measured FLOP/s of the processor (0: unknown); time of this call's steps
  std::int64_t tokens_ = 0, labels_ = 0;   // of this call's steps, over all ranks
};

} // namespace constrain::detail
