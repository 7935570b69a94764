#pragma once

#include "constrain/device/random.hpp"
#include "constrain/train/batch.hpp"
#include "constrain/train/dataset.hpp"
#include "constrain/train/engine.hpp"
#include "constrain/train/evaluate_samples.hpp"
#include "constrain/train/loss_scale.hpp"
#include "constrain/train/named_tensors.hpp"
#include "constrain/train/ranks.hpp"
#include "constrain/train/results.hpp"
#include "constrain/train/run_options.hpp"
#include "constrain/train/sample.hpp"
#include "constrain/train/saved/pretrained.hpp"
#include "constrain/train/step_ticket.hpp"
#include "constrain/train/training_state.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The common base of a trainer and an inference object: evaluation, prediction, generation, parameters, settings and
/// ranks. `entries_`: the entry programs, constrain::entries or inference_entries. In a trainer with
/// optimizer::averaged, `evaluate`, `predict` and `generate` use the averages in place of the weights. If several ranks
/// hold a tensor together, these functions are collective and also throw the errors of `ranks::check_same_work`; if a
/// check of their arguments fails on one rank, all ranks throw, and if anything else throws on some ranks only, such as
/// `stop`, the job ends.
template <class entries_> class evaluator {
public:
  using entries = entries_;
  using task = typename entries::task;
  using policy_set = typename entries::policies;
  using real = typename entries::real; // type of the logits that predict returns

  /// The loss, accuracy and metrics over all samples of a corpus or of examples, without dropout. Every rank evaluates
  /// all samples. The training state does not change. Throws `error` if the data does not fit the model or the
  /// objective, cannot be read, or has no valid label.
  template <data::is_dataset dataset> evaluation evaluate(dataset const& d) {
    return *evaluate(d, [] { return false; });
  }
  /// Like `evaluate(d)`, but calls `stop()` before every micro-batch and returns nullopt if `stop` returns true. With
  /// parallel::zero, parallel::tensor or parallel::mesh, `stop` must return the same result on all ranks.
  template <data::is_dataset dataset, class predicate>
  std::optional<evaluation> evaluate(dataset const& d, predicate const& stop) {
    std::optional<sample_set> samples;
    return evaluate_samples(
        [&]() -> sample_set const& { return samples.emplace(detail::samples_of<evaluator, false>("evaluate", d)); },
        [&] { return detail::run_user_code(stop); });
  }
  /// `evaluate(d, stop)` for data that `fit` or `compare` has already checked.
  std::optional<evaluation> evaluate(sample_set const& samples, function_ref<bool()> stop) {
    return evaluate_samples([&]() -> sample_set const& { return samples; }, stop);
  }

  /// The loss, accuracy and metrics over the caller's arrays. Inputs: [n, sequences, tokens] for any n >= 1, or a list
  /// of arrays; here, `sequences` is `.evaluation_sequences` of the micro-batch, if this field is set. Labels: for
  /// causal_lm the shape of the inputs, for classification of sequences [n, sequences], or a list of arrays.
  /// `label_kind`: labels::shift if `labels` are the inputs themselves; the labels are then shifted by one token.
  /// Throws `error` as `trainer::batch` does, and if no label is valid.
  evaluation evaluate(array_list const& inputs, array_list const& labels,
                      constrain::labels label_kind = constrain::labels::shifted) {
    constexpr auto ports = engine::template ports<typename entries::evaluate>;
    evaluation result;
    ranks_.run_passes(joint_call::evaluate, [&](agreement& all) {
      auto const micro_batches = detail::count_micro_batches(ports, entries::pads, inputs, labels);
      auto const b = detail::batch_of_arrays("evaluate", inputs, labels, label_kind,
                                             engine::template needs<typename entries::evaluate>);
      detail::check_has_labels(b.valid_labels > 0); // here, because later only this rank would throw
      synchronize();
      ranks_.check_same_work(all, joint_call::evaluate, static_cast<std::int64_t>(micro_batches), b.every_input(),
                             b.every_label());
      detail::evaluation_sums sum;
      for (std::size_t i = 0; i < micro_batches; ++i)
        evaluate_micro_batch(detail::micro_batch_of(ports, port_kind::input, b.every_input(), i),
                             detail::micro_batch_of(ports, port_kind::label, b.every_label(), i), sum);
      result = result_of(sum);
    });
    return result;
  }

  /// The logits of one micro-batch. Inputs: [sequences, tokens], or a list of arrays. Throws `error` if the number of
  /// arrays is wrong, if an array has the wrong type or length, or if a value is out of range or not finite.
  prediction<real> predict(array_list const& inputs) {
    constexpr auto ports = engine::template ports<typename entries::predict>;
    ranks_.run_passes(joint_call::predict, [&](agreement& all) {
      detail::check_lengths("predict", ports, port_kind::input, inputs, "");
      detail::check_all_values("predict", ports, port_kind::input, inputs);
      synchronize();
      ranks_.check_same_work(all, joint_call::predict, 1, inputs);
      engine_.template update_copies<joint_call::predict>(next_step_parameters());
      engine_.template begin<typename entries::predict>("predict", inputs);
      engine_.template run<typename entries::predict, typename entries::predict_program, joint_call::predict>(
          next_step_parameters());
    });
    return {engine_.template logits<typename entries::predict>(0, entries::logits.elements()), entries::logits};
  }

  /// Returns the prompt, followed by `count` sampled tokens. Each token costs a full forward pass over the last
  /// `task::tokens` tokens (no key-value cache). If there are fewer tokens, token 0 fills the positions after them, so
  /// the model must be causal; only the library's attention is checked. Throws `error` for an empty prompt, a negative
  /// `count`, tokens or options out of range, or logits that `sampler` refuses. If there are more classes than tokens
  /// in the vocabulary, also throws `error` if a sampled class that is not a token would be the input of the next
  /// forward pass. Compile-time error unless tokens are the model's only input, there are logits for each token, and
  /// each use of the library's attention is causal, has lengths or has a window of 1 token.
  [[gnu::cold]] std::vector<std::int32_t> generate(std::span<std::int32_t const> prompt, std::int64_t count,
                                                   generate_options const& options = {}) {
    constexpr bool causal = !detail::attends_to_later_tokens(entries::generate_program::without_dead_code);
    constexpr bool per_token = entries::logits.rank == 3 && entries::logits.extent[1] == task::tokens;
    [[maybe_unused]] generates_tokens<entries::takes_tokens, per_token, causal> const checked;
    std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
    ranks_.run_passes(joint_call::generate, [&](agreement& all) {
      check_count("generate", "the number of tokens", count, 0);
      if (prompt.empty()) throw error("generate: the prompt is empty; give at least one token");
      if (entries::vocabulary > 0) detail::check_tokens("generate", prompt, entries::vocabulary);
      std::vector<std::int32_t> context(static_cast<std::size_t>(task::tokens));
      sampler draw(options);
      synchronize();
      ranks_.check_same_work(all, joint_call::generate, count, detail::hash_of(prompt, options));
      for (std::int64_t i = 0; i < count; ++i) {
        if constexpr (entries::logits.features() > entries::vocabulary && entries::vocabulary > 0)
          detail::check_sampled(tokens.back(), entries::vocabulary);
        auto const length = detail::fill_context(context, tokens);
        engine_.template update_copies<joint_call::generate>(next_step_parameters());
        engine_.template begin<typename entries::generate>("generate", context);
        engine_.template run<typename entries::generate, typename entries::generate_program, joint_call::generate>(
            next_step_parameters());
        auto const classes = entries::logits.features();
        auto const row = engine_.template logits<typename entries::generate>((length - 1) * classes, classes);
        tokens.push_back(draw(row.data(), row.size(), i));
      }
    });
    return tokens;
  }

  /// Like the function above, for a list of tokens in braces.
  std::vector<std::int32_t> generate(std::initializer_list<std::int32_t> prompt, std::int64_t count,
                                     generate_options const& options = {}) {
    return generate(std::span<std::int32_t const>(prompt.begin(), prompt.size()), count, options);
  }

  /// `generate` for text, with one token per byte. Compile-time error unless the model's vocabulary is 256. Throws as
  /// `generate` for tokens does, and also if the last sampled class is not a byte.
  std::string generate(std::string_view prompt, std::int64_t count, generate_options const& options = {}) {
    [[maybe_unused]] tokens_are_bytes<entries::vocabulary> const checked;
    auto const tokens = generate(std::span<std::int32_t const>(detail::tokens_of(prompt)), count, options);
    detail::check_sampled(tokens.back(), entries::vocabulary);
    return detail::text_of(tokens);
  }

  /// Views of all parameters, in the order in which the model creates them.
  std::vector<parameter_view> parameters() const {
    synchronize();
    return tensors().parameters();
  }
  /// The value of a setting of the model (see ct::setting) or of the library, such as "dropout". Throws `error` if
  /// there is no such setting.
  double setting(std::string_view name) const {
    synchronize();
    return tensors().setting(name);
  }
  /// Changes a setting for all later steps and forward passes. Throws `error` if there is no such setting, if `x` is
  /// not finite, if `x` is out of range for one of the library's settings, or if the ranks pass different values.
  /// Collective.
  void set(std::string_view name, double x) {
    synchronize();
    tensors().set(name, x, world());
  }

  /// This process's rank.
  int rank() const { return ranks_.world->rank(); }
  /// The number of ranks (the world size).
  int ranks() const { return ranks_.world->size(); }
  /// Number of ranks that train on different data. The ranks of a tensor group (parallel::tensor, parallel::mesh) share
  /// their data.
  int data_ranks() const { return ranks_.data().size(); }
  /// Logical OR of `local` over all ranks. Collective.
  bool in_any_rank(bool local) const { return agree(world(), joint_call::question, local ? 1 : 0) > 0; }
  /// The communicator of all ranks.
  communicator& world() const { return *ranks_.world; }
  /// Bytes of the arena up to the last byte written to a buffer, plus step parameters and scratch memory. Meaningful
  /// only with the option `.measure_memory` and without `.checked`, which writes to all buffers; this function does not
  /// check the options.
  bytes used_bytes() const {
    synchronize();
    return engine_.used();
  }
  /// The options passed to the constructor.
  run_options const& options() const { return run_; }

protected:
  using engine = detail::engine<entries>;

  /// Forms the groups of ranks, and chooses this rank's device. Throws `error` as `find_ranks` and `choose_device` do.
  explicit evaluator(run_options const& run) : run_(run), ranks_(find_ranks<policy_set>(run.deadline)) {
    engine_.choose_device(run.cuda_device, *ranks_.world);
  }

  /// The step parameters of an entry's next run. They always contain the seed, because ops of any entry may draw random
  /// numbers.
  constrain::step_parameters next_step_parameters() const {
    constexpr std::int64_t micro_batches = policy_set::accumulation::value.micro_batches;
    constrain::step_parameters p;
    p.seed = state_.seed, p.step = state_.steps.count();
    p.updates = state_.steps.count() - state_.skipped;
    p.samples = task::sequences, p.first_sample = ranks_.data().rank() * micro_batches * task::sequences;
    p.data = &ranks_.data(), p.zero = &ranks_.zero(), p.tensor = ranks_.tensor.get();
    return p;
  }

  /// The parameters, optimizer states and settings.
  static parameter_list table() { return entries::parameters.view(); }
  detail::named_tensors tensors() const { return {table(), engine_.arena(), *ranks_.storage_group}; }
  /// The weight format of the model; the default format for a task without `architecture`.
  static weight_format format() {
    if constexpr (requires { task::architecture; })
      return weight_format_of<std::remove_cvref_t<decltype(task::architecture)>>::make(task::architecture);
    else return {};
  }

  /// Removes steps from `open_steps_`, the oldest first, until at most `maximum_open` remain and no ticket has waited
  /// for the oldest of these. Waits for each removed step, and updates the training state with its result. Throws the
  /// `error` of a step that failed on the device; this step is not removed.
  void synchronize([[maybe_unused]] int maximum_open = 0) const {
    if constexpr (engine::is_asynchronous)
      for (; open_steps_.must_take_oldest(maximum_open); open_steps_.pop()) record_result(open_steps_.oldest().wait());
  }
  /// `update_copies` before a step. The casts may exchange data, so the ranks first agree that all of them are in a
  /// step.
  void update_copies_of_step() {
    if (engine_.has_stale_copies() && ranks() > 1) agree(world(), joint_call::step);
    engine_.template update_copies<joint_call::step>(next_step_parameters());
  }
  /// Rethrows the exception that ends a step, or ends the job (`rethrow_or_end_job`). The step may have changed weights
  /// without their compute copies.
  [[noreturn, gnu::cold]] void end_failed_step() {
    engine_.arena().mark_changed(0);
    rethrow_or_end_job(world(), joint_call::step);
  }
  /// Updates the training state with a step's result: counts a skipped step, and adapts the loss scale of
  /// precision::fp16.
  void record_result(step_result const& r) const {
    if constexpr (policy_set::precision::value.loss_scale)
      detail::adapt_loss_scale(tensors(), run_.loss_scale, r.skipped);
    if (r.skipped) ++state_.skipped;
  }

  run_options run_;
  mutable training_state state_; // an inference object sets only the seed; mutable, for `synchronize`
  mutable detail::open_steps open_steps_;
  constrain::ranks ranks_;
  engine engine_;

private:
  static constexpr bool has_metrics = entries::evaluate::value.result("class_counts").elements > 0;

  /// `evaluate` for the samples that `make_samples()` returns.
  std::optional<evaluation> evaluate_samples(function_ref<sample_set const&()> make_samples,
                                             function_ref<bool()> stop) {
    std::optional<evaluation> result;
    ranks_.run_passes(joint_call::evaluate, [&](agreement& all) {
      auto const& samples = make_samples();
      detail::check_has_labels(samples.has_labels());
      synchronize();
      ranks_.check_same_work(all, joint_call::evaluate, samples.size(), samples.fingerprint());
      auto const sum = detail::evaluate_samples(samples, detail::evaluation_sequences<task>, stop,
                                                [&](constrain::batch const& b, detail::evaluation_sums& sums) {
                                                  evaluate_micro_batch(b.every_input(), b.every_label(), sums);
                                                });
      if (sum) result = result_of(*sum);
    });
    return result;
  }
  /// Evaluates one micro-batch and adds its sums to `sum`; adds nothing if no label is valid.
  [[gnu::cold]] void evaluate_micro_batch(array_list const& inputs, array_list const& labels,
                                          detail::evaluation_sums& sum) {
    engine_.template update_copies<joint_call::evaluate>(next_step_parameters());
    auto const valid = engine_.template begin<typename entries::evaluate>("evaluate", inputs, labels);
    // A rank without a valid label takes part in the collectives of the other ranks' forward passes.
    if (valid == 0 && ranks_.storage_group->size() == 1) return;
    engine_.template write_label_count<typename entries::evaluate>(std::max<std::int64_t>(valid, 1));
    engine_.template run<typename entries::evaluate, typename entries::evaluate_program, joint_call::evaluate>(
        next_step_parameters());
    if (valid == 0) return;
    sum.loss += engine_.read(entries::evaluate::value.result("loss")) * static_cast<double>(valid);
    if (entries::counts_correct) sum.correct += engine_.read(entries::evaluate::value.result("correct"));
    sum.tokens += valid;
    if constexpr (has_metrics) {
      constexpr auto counts = entries::evaluate::value.result("class_counts");
      std::vector<double> added(static_cast<std::size_t>(counts.elements));
      engine_.arena().read(counts.offset, added.data(), counts.elements * size_of(counts.type));
      sum.class_counts.resize(added.size());
      for (std::size_t i = 0; i < added.size(); ++i) sum.class_counts[i] += added[i];
    }
  }
  /// The means and the objective's metrics.
  static evaluation result_of(detail::evaluation_sums const& sum) {
    auto result = detail::mean_of(sum, entries::counts_correct);
    if constexpr (has_metrics) result.metrics = task::objective::metrics::of(class_counts(sum.class_counts));
    return result;
  }
};

} // namespace constrain
