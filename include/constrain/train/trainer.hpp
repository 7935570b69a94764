#pragma once

#include "constrain/device/random.hpp"
#include "constrain/train/agreement.hpp"
#include "constrain/train/batch.hpp"
#include "constrain/train/batches.hpp"
#include "constrain/train/checks.hpp"
#include "constrain/train/dataset.hpp"
#include "constrain/train/engine.hpp"
#include "constrain/train/evaluate_samples.hpp"
#include "constrain/train/initialize.hpp"
#include "constrain/train/loss_scale.hpp"
#include "constrain/train/named_tensors.hpp"
#include "constrain/train/ranks.hpp"
#include "constrain/train/results.hpp"
#include "constrain/train/run_options.hpp"
#include "constrain/train/sample.hpp"
#include "constrain/train/saved/pretrained.hpp"
#include "constrain/train/saved/resume.hpp"
#include "constrain/train/saved/saved_run.hpp"
#include "constrain/train/settings.hpp"
#include "constrain/train/training_state.hpp"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Trains the model of a task under policies. The memory plan and the order of the kernels are compile-time constants;
/// the memory of all tensors is allocated at construction. With distributed policies, all ranks must make these calls
/// in the same order: construction, `step`, `evaluate`, `predict`, `generate`, `set`, `save`, loads, copies from views.
/// An error of the constructor, `step`, `save` or a load on one rank is thrown on all.
template <class task_, class... list> class trainer {
public:
  using task = typename detail::task_or_refusal<task_>::task;
  using policy_set = std::conditional_t<is_task<task_>, policies<list...>, policies<>>;
  using optimizer = typename policy_set::optimizer;
  using hyper = typename optimizer::hyper;
  using entries = constrain::entries<task, policy_set>;
  using real = typename entries::real; // type of the logits that predict returns

  static constexpr memory_plan memory = entries::memory;                         // planned bytes, by part
  static constexpr std::int64_t parameter_count = entries::parameter_count;      // elements of all parameters
  static constexpr double flops = entries::work.flops;                           // of one step on one rank
  static constexpr double bytes_moved = entries::work.bytes_moved;               // by the kernels of one step
  static constexpr std::int64_t kernel_launches = entries::work.kernel_launches; // of one step
  static constexpr std::int64_t collectives = entries::work.collectives;         // of one step
  static constexpr std::int64_t micro_batches = policy_set::accumulation::value.micro_batches; // in one step
  static constexpr std::int64_t batch_tokens =
      entries::step::failure.ok() ? micro_batches * task::sequences * task::tokens : 0; // of one step on one rank

  /// `h`: the optimizer's hyperparameters. Throws `error` for a value out of range, if the arena cannot be allocated,
  /// if the world size is not a multiple of the number of shards, or if the ranks' settings differ.
  explicit trainer(hyper const& h = {}, run_options const& run = {})
      : hyper_(h), run_(run), ranks_(find_ranks<policy_set::parallelism::value>(run.deadline)) {
    detail::check_trainers_agree<trainer>(world(), h, run, table());
    agreed(world(), joint_call::construction, [&] {
      detail::check_hyper<optimizer>(h, policy_set::optimizer_name());
      detail::check_run(run);
      if constexpr (updates_in_backward<optimizer>) detail::check_no_clipping(run);
      engine_.allocate(run);
      state_.seed = run.seed;
      initialize(table(), state_.seed, engine_.arena(), ranks_.holders->rank());
      detail::start_settings(tensors(), run);
    });
  }

  /// One optimizer step. A non-finite gradient is not an error: see `step_result::skipped`. Throws `error`, with the
  /// weights and states unchanged, for a batch of another shape or one that its `batch_range` has overwritten, for a
  /// token or label out of range, for different corpora on different ranks, or if no rank has a valid label.
  [[gnu::cold]] step_result step(constrain::batch const& b) try {
    auto const valid_labels = ranks_.sum_of_parts(
        joint_call::step, [&] { return take(b); }, b);
    if (valid_labels == 0)
      throw error("step: every label is ignored, so there is no loss; pass at least one valid label");
    auto const step_parameters = step_parameters_now();
    auto h = hyper_;
    detail::scale_learning_rates(h, schedule::factor(run_.schedule, state_.steps), state_.learning_rate_factor);
    op::step_hyperparameters<optimizer, storage<entries::master>> const prepared(h, {step_parameters.updates + 1});
    engine_.arena().write(entries::step::value.hyper.offset, &prepared, sizeof prepared);
    engine_.template write_label_count<typename entries::step>(valid_labels);
    engine_.template run<typename entries::step, typename entries::step_program>(step_parameters);
    engine_.keep_gradients();

    step_result r;
    r.loss = engine_.read(entries::step::value.result("loss"));
    r.gradient_norm = engine_.read(entries::step::value.result("clip_coefficient"));
    r.tokens = valid_labels;
    bool const is_finite = math::finite(r.gradient_norm);
    r.skipped = !is_finite && !updates_in_backward<optimizer>;
    if constexpr (scales_loss) *loss_scale_ = detail::adapt_loss_scale(tensors(), run_.loss_scale, r.skipped);
    if (r.skipped) ++state_.skipped;
    if (!is_finite) {
      constexpr auto squares = entries::step::value.result("gradient_squares");
      int gradient = 0;
      while (gradient < squares.elements && math::finite(engine_.read(squares, gradient))) ++gradient;
      r.not_finite = detail::name_of_gradient(table(), gradient);
    }
    state_.steps = state_.steps.count() + 1;
    if (b.corpus != 0) state_.corpus = b.corpus, state_.position = b.next;
    return r;
  } catch (...) { rethrow_or_end_job(world(), joint_call::step); }

  /// Compile-time error: `step` takes a batch, not arrays.
  template <class x, class y> detail::step_takes_a_batch<x> step(x const&, y const&);

  /// A batch over your own arrays, which must live until `step` returns: inputs [micro-batches, sequences, tokens];
  /// labels of the same shape, or [micro-batches, sequences] for classification, `ignored_label` (-100) where an input
  /// has none. A model with several inputs takes a list: `batch({tokens, lengths}, labels)`. For causal_lm, shift the
  /// labels: each is the token after its input; or pass the inputs as labels, and labels::shift. Throws `error` for a
  /// wrong number, type or length of arrays, a value out of range, labels that equal the inputs although they should be
  /// the next tokens, or, with a single rank, no valid label.
  constrain::batch batch(array_list const& inputs, array_list const& labels,
                         constrain::labels which = constrain::labels::shifted) const {
    auto const b = detail::own_batch(inputs, labels, which, engine::template needs<typename entries::step>);
    if (b.valid_labels == 0 && ranks() == 1)
      throw error("batch: every label is ignored, so there is no loss; pass at least one valid label");
    return b;
  }

  /// This rank's batches of a corpus or of examples, without end, reshuffled every epoch. They begin at the position in
  /// the training state if the last batch was one of `d`, else at epoch 0. A worker thread prepares the next batch.
  /// Throws `error` if the data does not fit the model or the objective, or gives no batch.
  template <data::is_dataset dataset> batch_range batches(dataset const& d, data::tail tail = data::tail::carry) const {
    return batches(detail::samples_of<trainer, true>("batches", d), tail);
  }
  /// For `fit`: `batches` of data that was checked.
  batch_range batches(sample_set const& samples, data::tail tail) const {
    auto const from = state_.corpus == samples.fingerprint() ? state_.position : data::position{};
    return batch_range({samples, state_.seed, from, micro_batches * task::sequences, tail, ranks_.data().rank(),
                        ranks_.data().size()});
  }

  /// Loss and accuracy over all samples of a corpus or of examples, without dropout; every rank evaluates all samples.
  /// The training state is unchanged. Throws `error` if the data does not fit the model or the objective, or has no
  /// label.
  template <data::is_dataset dataset> evaluation evaluate(dataset const& d) {
    return *evaluate(d, [] { return false; });
  }
  /// As `evaluate(d)`, but calls `stop()` before every micro-batch and returns nullopt if `stop` returns true.
  template <data::is_dataset dataset, class predicate>
  std::optional<evaluation> evaluate(dataset const& d, predicate const& stop) {
    return evaluate(detail::samples_of<trainer, false>("evaluate", d), stop);
  }
  /// For `fit`: `evaluate` of data that was checked.
  std::optional<evaluation> evaluate(sample_set const& samples, function_ref<bool()> stop) {
    ranks_.come_to(joint_call::evaluate, samples.size());
    auto const sum =
        detail::evaluate_samples(samples, task::sequences, stop, [&](constrain::batch const& b, evaluation& to) {
          evaluate_one(b.every_input(), b.every_label(), to);
        });
    return sum ? std::optional(detail::mean_of(*sum, entries::counts_correct)) : std::nullopt;
  }

  /// Loss and accuracy over your own arrays: inputs [n, sequences, tokens] for any n >= 1, or a list; labels of the
  /// same shape, or [n, sequences] for classification. Throws `error` as `batch` does.
  evaluation evaluate(array_list const& inputs, array_list const& labels,
                      constrain::labels which = constrain::labels::shifted) {
    constexpr auto ports = engine::template ports<typename entries::evaluate>;
    auto const batches = detail::count_batches(ports, inputs, labels);
    auto const b =
        detail::own_arrays("evaluate", inputs, labels, which, engine::template needs<typename entries::evaluate>);
    ranks_.come_to(joint_call::evaluate, static_cast<std::int64_t>(batches), inputs, labels);
    evaluation sum;
    for (std::size_t i = 0; i < batches; ++i)
      evaluate_one(detail::part_of(ports, port_kind::input, b.every_input(), i),
                   detail::part_of(ports, port_kind::label, b.every_label(), i), sum);
    return detail::mean_of(sum, entries::counts_correct);
  }

  /// The logits of one micro-batch, inputs [sequences, tokens], or a list. Throws `error` for a wrong number, type or
  /// length of arrays, or an invalid value.
  prediction<real> predict(array_list const& inputs) {
    constexpr auto ports = engine::template ports<typename entries::predict>;
    detail::check_lengths("predict", ports, port_kind::input, inputs, "");
    detail::check_all_values("predict", ports, port_kind::input, inputs);
    ranks_.come_to(joint_call::predict, 1, inputs);
    engine_.template begin<typename entries::predict>("predict", inputs);
    engine_.template run<typename entries::predict, typename entries::predict_program>(step_parameters_now());
    return {engine_.template logits<typename entries::predict>(0, entries::logits.elements()), entries::logits};
  }

  /// Returns the prompt and `count` sampled tokens. Each token costs a full forward pass over the last `task::tokens`
  /// tokens (no key-value cache). Throws `error` for an empty prompt, a negative `count`, tokens or options out of
  /// range, or logits that `sampler` refuses.
  [[gnu::cold]] std::vector<std::int32_t> generate(std::span<std::int32_t const> prompt, std::int64_t count,
                                                   generate_options const& options = {}) {
    [[maybe_unused]] generates_tokens<entries::takes_tokens, entries::logits.rank == 3> const checked;
    check_count("generate", "the number of tokens", count, 0);
    if (prompt.empty()) throw error("generate: the prompt is empty; give at least one token");
    if (entries::vocabulary > 0) detail::check_tokens("generate", prompt, entries::vocabulary);
    std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
    std::vector<std::int32_t> context(static_cast<std::size_t>(task::tokens));
    sampler draw(options);
    ranks_.come_to(joint_call::generate, count, prompt);
    for (std::int64_t i = 0; i < count; ++i) {
      auto const length = detail::fill_context(context, tokens);
      engine_.template begin<typename entries::generate>("generate", context);
      engine_.template run<typename entries::generate, typename entries::generate_program>(step_parameters_now());
      auto const classes = entries::logits.features();
      auto const row = engine_.template logits<typename entries::generate>((length - 1) * classes, classes);
      tokens.push_back(draw(row.data(), row.size(), i));
    }
    return tokens;
  }

  /// `generate` for text, one token per byte: needs a model with a vocabulary of 256. Throws as the other `generate`.
  std::string generate(std::string_view prompt, std::int64_t count, generate_options const& options = {}) {
    [[maybe_unused]] tokens_are_bytes<entries::vocabulary> const checked;
    auto const tokens = detail::tokens_of(prompt);
    return detail::text_of(generate(std::span<std::int32_t const>(tokens), count, options));
  }

  /// Views of all parameters, in the order in which the model creates them.
  std::vector<parameter_view> parameters() const { return tensors().parameters(); }
  /// The gradient of a parameter in the last step, before clipping; in fp16, `copy_to` divides by the loss scale of
  /// that step, and `copy_from` multiplies by it. Throws `error` for an unknown or frozen parameter, before the first
  /// step, and after evaluate, predict, generate (which reuse the gradients' memory) or a load.
  tensor_view gradient(std::string_view name) const {
    return tensors().gradient(name, engine_.gradients_kept(), &*loss_scale_);
  }
  /// The state `name` of the optimizer for a parameter, such as "exp_avg" of adamw. Throws `error` if there is none.
  tensor_view state(std::string_view parameter, std::string_view name) const {
    return tensors().state(parameter, name);
  }
  /// The value of a setting of the model (see ct::setting). Throws `error` if the model has no such setting.
  double setting(std::string_view name) const { return tensors().setting(name); }
  /// Changes a setting of the model for all later runs. Throws `error` if there is none of that name, if `x` is not
  /// finite or out of the range of a setting of the library, or if the ranks give different values. Collective.
  void set(std::string_view name, double x) { tensors().set(name, x, world()); }

  /// This process's rank.
  int rank() const { return ranks_.world->rank(); }
  /// The world size: number of processes that train together.
  int ranks() const { return ranks_.world->size(); }
  /// Number of processes that train on different data; others divide the layers (parallel::tensor).
  int data_ranks() const { return ranks_.data().size(); }
  /// Logical OR of `here` over all ranks. Collective.
  bool in_any_rank(bool here) const { return agree(world(), joint_call::question, here ? 1 : 0) > 0; }
  /// The communicator of all ranks.
  communicator& world() const { return *ranks_.world; }
  /// Records a validation loss in the training state; returns whether it is the lowest so far.
  bool note_validation(double loss) {
    bool const best = loss < state_.best_validation_loss;
    if (best) state_.best_validation_loss = loss;
    state_.evaluations_since_best = best ? 0 : state_.evaluations_since_best + 1;
    return best;
  }
  /// Optimizer steps done, skipped ones included.
  optimizer_steps steps() const { return state_.steps; }
  /// The part of a saved run that is not tensors: counters, position in the corpus, and so on.
  training_state const& state() const { return state_; }

  /// Saves weights, optimizer states, settings and training state to a directory, atomically: a saved run already there
  /// is replaced only by a complete one. Hugging Face Transformers can load the directory if the model is gpt2. Throws
  /// `error` on all ranks if a file cannot be written.
  void save(std::string const& directory) const {
    save_run(directory, table(), format(), configuration(), state_, engine_.arena(), *ranks_.world, *ranks_.holders);
  }
  /// Loads a run that `save` wrote, to continue it; a setting that it lacks keeps its value. Throws `error`, with
  /// nothing changed, if the directory is damaged, was saved with another configuration or has a number out of range,
  /// such as a setting that `set` refuses; the error names the field.
  void load(std::string const& directory) {
    state_ = load_run(directory, table(), format(), configuration(), engine_.arena(), *ranks_.world, *ranks_.holders);
    engine_.drop_gradients();
  }
  /// Loads only weights: from a directory or safetensors file of Hugging Face Transformers, or from another trainer's
  /// saved run of the same model. Throws `error`, with nothing changed, if names, shapes or configuration do not match.
  void load_pretrained(std::string const& path) {
    constrain::load_pretrained(path, table(), format(), engine_.arena(), *ranks_.world, *ranks_.holders);
    start_averages(table(), engine_.arena());
    engine_.drop_gradients();
  }

  /// Loads the newest of the runs saved in directory/step-<n>, else the run saved in the directory itself; all ranks
  /// load the same. Returns false if there is no saved run. If one of several cannot be loaded, rank 0 prints the error
  /// to `log` (null: silent) and the next older is loaded. Throws the error of `load` if none can be loaded.
  bool resume(std::string const& directory, std::FILE* log = stderr) {
    return resume_from(
        directory, *ranks_.world, [&](std::string const& path) { load(path); }, rank() == 0 ? log : nullptr);
  }

  /// The learning rate of the next step, by schedule and `scale_learning_rate`; 0 for an optimizer without one.
  double learning_rate() const {
    return detail::learning_rate_of(hyper_) * schedule::factor(run_.schedule, state_.steps) *
           state_.learning_rate_factor;
  }
  /// Multiplies all later learning rates, in resumed runs too. Throws `error` for a factor <= 0 or a product above 1e9.
  void scale_learning_rate(double factor) {
    state_.learning_rate_factor = detail::scaled_factor(state_.learning_rate_factor, factor);
  }
  /// Bytes of the arena up to the last byte written, plus the workspace of a GPU. Needs `.measure_memory`.
  bytes used_bytes() const { return engine_.used(); }
  /// The options given at construction.
  run_options const& options() const { return run_; }

private:
  using engine = detail::engine<task, policy_set>;
  static constexpr bool scales_loss = policy_set::precision::value.loss_scale;

  constrain::step_parameters step_parameters_now() const {
    constrain::step_parameters n;
    n.seed = state_.seed, n.step = state_.steps.count();
    n.updates = state_.steps.count() - state_.skipped;
    n.samples = task::sequences, n.first_sample = ranks_.data().rank() * micro_batches * task::sequences;
    n.world = &ranks_.data(), n.group = &ranks_.zero(), n.tensor = ranks_.tensor.get();
    return n;
  }

  [[gnu::cold]] void evaluate_one(array_list const& inputs, array_list const& labels, evaluation& sum) {
    auto const valid = engine_.template begin<typename entries::evaluate>("evaluate", inputs, labels);
    if (valid == 0) return;
    engine_.template write_label_count<typename entries::evaluate>(valid);
    engine_.template run<typename entries::evaluate, typename entries::evaluate_program>(step_parameters_now());
    sum.loss += engine_.read(entries::evaluate::value.result("loss")) * static_cast<double>(valid);
    if (entries::counts_correct) sum.accuracy += engine_.read(entries::evaluate::value.result("correct"));
    sum.tokens += valid;
  }

  /// Copies a batch into the arena; returns this rank's number of valid labels. Throws as `step` does for a bad batch.
  std::int64_t take(constrain::batch const& b) {
    detail::check_batch(b, engine::template needs<typename entries::step>);
    return engine_.template begin<typename entries::step>("step", b.every_input(), b.every_label());
  }

  static parameter_list table() { return entries::parameters.view(); }
  detail::named_tensors tensors() const { return {table(), engine_.arena(), *ranks_.holders}; }
  static weight_format format() {
    if constexpr (requires { task::architecture; })
      return weight_format_of<std::remove_cvref_t<decltype(task::architecture)>>::make(task::architecture);
    else return {};
  }
  static saved_configuration configuration() {
    return {policy_set::precision::name,   policy_set::optimizer_name(),        task::tokens,
            policy_set::optimizer_state(), policy_set::optimizer_state_names(), policy_set::kept_on_resume()};
  }

  hyper hyper_;
  run_options run_;
  training_state state_;
  constrain::ranks ranks_;
  engine engine_;
  held<double> loss_scale_ = std::make_unique<double>(1); // of the last step; on the heap: views point to it
};

} // namespace constrain
