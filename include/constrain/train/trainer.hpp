#pragma once

#include "constrain/base/number_check.hpp"
#include "constrain/policy/policy_name.hpp"
#include "constrain/train/agreement.hpp"
#include "constrain/train/batches.hpp"
#include "constrain/train/checks.hpp"
#include "constrain/train/entries.hpp"
#include "constrain/train/evaluator.hpp"
#include "constrain/train/initialize.hpp"
#include "constrain/train/loss_scale.hpp"
#include "constrain/train/saved/resume.hpp"
#include "constrain/train/saved/saved_run.hpp"
#include "constrain/train/settings.hpp"
#include "constrain/train/step_ticket.hpp"
#include "constrain/train/training_state.hpp"

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The entry programs of a trainer of `task_` with the policies in `list`.
template <class task_, class... list>
using entries_of_trainer =
    entries<typename task_or_refusal<task_>::task, std::conditional_t<is_task<task_>, policies<list...>, policies<>>>;

} // namespace detail

/// Trains a task's model with a set of policies. The memory plan and the order of the kernels are compile-time
/// constants; the memory of all tensors is allocated at construction. With a parallel policy, all ranks must make the
/// following calls, in the same order: construction, `step`, `enqueue`, `evaluate`, `predict`, `generate`, `set`,
/// `scale_learning_rate`, `in_any_rank`, `save`, `resume`, the functions that load, copies out of views of tensors that
/// several ranks hold together, and destruction. If a check in the constructor, `set`, `scale_learning_rate` or a
/// function that loads fails on one rank, all ranks throw. If `step`, `enqueue`, `save` or, where several ranks hold a
/// tensor together, `evaluate`, `predict` or `generate` throws on one rank, all ranks throw, or the job ends.
template <class task_, class... list>
class trainer : public evaluator<typename detail::entries_of_trainer<task_, list...>::checked> {
  using base = evaluator<detail::entries_of_trainer<task_, list...>>;

public:
  using typename base::entries, typename base::task, typename base::policy_set, typename base::real;
  // Compile-time error if the memory plan exceeds the limit of checkpoint::budget.
  static_assert(sizeof(typename sound<entries::failure_of_limit.reason, entries::failure_of_limit>::type) > 0);
  using optimizer = typename policy_set::optimizer;
  using hyper = typename optimizer::hyper;
  using base::rank, base::ranks, base::world;

  static constexpr memory_plan memory = entries::memory;                    // planned bytes of one rank, by part
  static constexpr std::int64_t parameter_count = entries::parameter_count; // elements of all parameters
  // Of one step on one rank; like the next two, an upper bound if chunks of logits are skipped (see fusion::all).
  static constexpr double flops = entries::work.flops;
  // Bytes that the kernels of one step on one rank read and write, computed from the cost rules of the ops. Weights and
  // states that an update changes, and gradients to which a kernel adds, count only once.
  static constexpr double bytes_moved = entries::work.bytes_moved;
  static constexpr std::int64_t kernel_launches = entries::work.kernel_launches; // of one step on one rank
  static constexpr std::int64_t collectives = entries::work.collectives;         // calls of collectives in one step
  static constexpr std::int64_t micro_batches = policy_set::accumulation::value.micro_batches; // in one step
  static constexpr std::int64_t batch_tokens =
      entries::step::failure.ok() ? micro_batches * task::sequences * task::tokens : 0; // of one step on one rank

  /// Allocates the arena and writes the initial values of all tensors. `h`: the optimizer's hyperparameters. `run`: all
  /// other options. Throws `error` for a value out of range, for a `.clip_norm` other than 0 with
  /// optimizer::in_backward, for a `.dropout` other than 0 without ct::dropout, for a `.cuda_stream` without CUDA, if
  /// the first updates or the schedule's rates would not be finite, if the device, the stream, MPI or NCCL cannot be
  /// used, if the arena cannot be allocated, if the world size does not fit the parallel policy, or if the program, the
  /// options or the hyperparameters differ between ranks.
  explicit trainer(hyper const& h = {}, run_options const& run = {}) : base(run), hyper_(h) {
    detail::check_trainers_agree<trainer>(world(), h, run, table());
    agreed(world(), joint_call::construction, [&] {
      detail::check_values<entries>(h, run);
      engine_.allocate(run);
      state_.seed = run.seed;
      initialize(table(), state_.seed, engine_.arena(), ranks_.storage_group->rank());
      detail::start_settings(tensors(), run);
    });
    engine_.connect(ranks_.data(), ranks_.zero(), run);
  }
  trainer(trainer const&) = delete; // a trainer cannot be copied; use a reference or std::move
  trainer(trainer&&) = default;
  trainer& operator=(trainer const&) = delete; // a trainer cannot be copied; use a reference or std::move
  trainer& operator=(trainer&&) = default;

  /// Runs one optimizer step: `enqueue` and `wait`. A non-finite gradient is not an error: see `step_result::skipped`.
  /// Throws `error`, with the weights and states unchanged, for a batch of the wrong shape, for one whose `batch_range`
  /// has advanced or been destroyed, for a token or label out of range, if the schedule's factor is negative or not
  /// finite or makes the learning rate infinite, if ranks have batches of different data sets or from different
  /// positions, if the ranks of a tensor group have different batches, or if no rank has a valid label. Also throws
  /// `error` if the device reports an error and, with `.checked`, if the check of a kernel call fails; by then, weights
  /// and states may have changed.
  [[gnu::cold]] step_result step(constrain::batch const& b) try { return start_step(b).wait(); } catch (...) {
    base::end_failed_step();
  }

  /// Starts one optimizer step and returns a ticket, whose `wait` returns what `step` would return. On a CUDA device,
  /// `enqueue` copies the batch's arrays to pinned memory, enqueues all work and returns without waiting for this work;
  /// on the CPU, it runs the whole step. Up to two steps can be in flight: a third call first waits for the oldest,
  /// whose ticket keeps the result. With precision::fp16, whose loss scale depends on the results of earlier steps, and
  /// with `.checked`, every call first waits for all earlier steps. On several devices, every call waits for its own
  /// step. `state`, and all calls that read or change tensors or settings, such as `save`, `evaluate` and `set`, wait
  /// for the enqueued steps; `steps`, `learning_rate`, `scale_learning_rate` and `batches` do not wait, and count the
  /// enqueued steps as done. The arrays of the batch may change as soon as `enqueue` returns. Throws `error` as `step`
  /// does, except that `step_ticket::wait`, or the next call that waits, throws an error that the device reports after
  /// `enqueue` has returned.
  [[gnu::cold]] step_ticket enqueue(constrain::batch const& b) try { return start_step(b); } catch (...) {
    base::end_failed_step();
  }

  /// Compile-time error: `step` takes a batch, not arrays.
  template <class x, class y> detail::step_takes_a_batch<x> step(x const&, y const&);

  /// A batch of the caller's arrays, which must live until `step` or `enqueue` returns. Each array has the shape
  /// [micro-batches, ...], where [...] is the shape of the task's input or label. For causal_lm, both shapes are
  /// [sequences, tokens]; for classification of sequences, the label has the shape [sequences]. Pass several inputs as
  /// a list: `batch({tokens, lengths}, labels)`. `ignored_label` (-100) marks a missing label. For causal_lm, each
  /// label is the token that follows the input token at the same position. Alternatively, pass the inputs as labels,
  /// with labels::shift. Throws `error` if the number of arrays is wrong, if an array has the wrong type or length, if
  /// a value is out of range or not finite, if labels equal the inputs but should be the next tokens, if labels cannot
  /// be shifted, or, with a single rank, if no label is valid.
  constrain::batch batch(array_list const& inputs, array_list const& labels,
                         constrain::labels label_kind = constrain::labels::shifted) const {
    auto const b = detail::batch_of_step(inputs, labels, label_kind, engine::template needs<typename entries::step>);
    if (b.valid_labels == 0 && ranks() == 1)
      throw error("batch: every label is ignored, so there is no loss; pass at least one valid label");
    return b;
  }

  /// An endless range of this rank's batches of a corpus or of examples, reshuffled every epoch. It begins at the
  /// position in the training state if `d` is the data that a step read last, else at epoch 0. A worker thread prepares
  /// the next batch. `tail`: see data/tail.hpp. The range shares the data of `d`, so arrays that examples view must
  /// outlive the range. Throws `error` if the data does not fit the model, the objective or `tail`, does not reach the
  /// position, or yields no batch.
  template <data::is_dataset dataset> batch_range batches(dataset const& d, data::tail tail = data::tail::carry) const {
    return batches(detail::samples_of<trainer, true>("batches", d), tail);
  }
  /// `batches` for data that `fit` or `compare` has already checked. `caller`: the first words of every error.
  batch_range batches(sample_set const& samples, data::tail tail, char const* caller = "batches") const {
    auto const start = state_.corpus == samples.fingerprint() ? state_.position : data::position{};
    return batch_range({samples, state_.seed, start, micro_batches * task::sequences, tail, ranks_.data().rank(),
                        ranks_.data().size(), caller});
  }

  /// A view of the last step's gradient of a parameter, before clipping. With precision::fp16, `copy_to` divides by the
  /// loss scale of that step, and `copy_from` multiplies by this scale. Throws `error` for an unknown or frozen
  /// parameter, with optimizer::in_backward, before the first step, after a load, and after evaluate, predict or
  /// generate, which reuse the gradients' memory; a step that throws may reuse it too. Do not use a view after such a
  /// call: this is not checked.
  tensor_view gradient(std::string_view name) const {
    synchronize();
    return tensors().gradient(name, engine_.gradients_kept(), &*loss_scale_);
  }
  /// A view of the optimizer state `name` of a parameter, such as "exp_avg" of adamw. Throws `error` for an unknown
  /// parameter, or if the parameter has no such state.
  tensor_view state(std::string_view parameter, std::string_view name) const {
    synchronize();
    return tensors().state(parameter, name);
  }
  /// Records the validation data of the losses passed to `note_validation`. `data`: the `fingerprint` of this data. If
  /// the losses so far are known to be from other data, forgets the lowest loss, the count of evaluations since then,
  /// and a missed evaluation. All ranks must pass the same fingerprint; this function does not check that they do.
  void begin_validation(std::uint64_t data) { detail::begin_validation(state_, data); }
  /// Records a validation loss in the training state, and that no evaluation is missed. Returns whether the loss is the
  /// lowest so far; false for a loss that is not finite. All ranks must pass the same loss; this is not checked.
  bool note_validation(double loss) {
    bool const best = detail::is_finite(loss) && loss < state_.best_validation_loss;
    if (best) state_.best_validation_loss = loss;
    state_.evaluations_since_best = best ? 0 : state_.evaluations_since_best + 1;
    state_.missed_evaluation = 0;
    return best;
  }
  /// Records in the training state that an evaluation was due after the last step but did not take place. When the run
  /// is resumed, `fit` makes up for this evaluation. All ranks must call this function; it does not check that they do.
  void note_missed_evaluation() { state_.missed_evaluation = state_.steps.count(); }
  /// The number of optimizer steps done, including skipped steps.
  optimizer_steps steps() const { return state_.steps; }
  /// The run's state besides its tensors: counters, the position in the data, and so on.
  training_state const& state() const {
    synchronize();
    return state_;
  }

  /// Saves weights, optimizer states, settings and training state to a directory, atomically: only a complete saved run
  /// replaces an existing one, and after an interrupted save, `load` and `load_pretrained` still find the old one.
  /// Creates missing parent directories. Hugging Face Transformers can load the directory if the model is bert, gpt2 or
  /// llama. With {.max_shard_size = ct::gibibytes(5)}, larger weights are split over several files. Throws `error` on
  /// all ranks if a file cannot be written, if an existing directory belongs to another user, or is neither empty nor
  /// saved by this library, or is or contains the working directory, if `.max_shard_size` is negative, or if the
  /// model's weight format gives two tensors one name.
  void save(std::string const& directory, save_options const& options = {}) const {
    synchronize();
    save_run(directory, options, table(), format(), configuration(), state_, engine_.arena(), *ranks_.world,
             *ranks_.storage_group);
  }
  /// Loads a run that `save` wrote, to continue it. The seed and the settings, such as clip_norm, become those of the
  /// saved run; a setting that it lacks keeps its value. The optimizer's hyperparameters and the schedule are not
  /// saved: they stay those of the constructor. Throws `error`, with nothing changed, if the directory is missing or
  /// damaged, differs between ranks, was saved with a different configuration, or has a value out of range, such as a
  /// setting that `set` refuses; the error names the field.
  void load(std::string const& directory) {
    synchronize();
    state_ =
        load_run(directory, table(), format(), configuration(), engine_.arena(), *ranks_.world, *ranks_.storage_group);
    engine_.drop_gradients();
  }
  /// Like `load`, but keeps the seed and the rest of the training state, such as the counters and the position in the
  /// data. A missed evaluation counts as done, because the loaded weights are not the weights to evaluate. Throws the
  /// errors of `load`.
  void load_tensors(std::string const& directory) {
    synchronize();
    load_run(directory, table(), format(), configuration(), engine_.arena(), *ranks_.world, *ranks_.storage_group);
    state_.missed_evaluation = 0;
    engine_.drop_gradients();
  }
  /// Loads only weights, from a directory or safetensors file of Hugging Face Transformers or from another trainer's
  /// saved run of the same model. With {.strict = false}, weights that are not stored keep their values: for example,
  /// `std::puts(t.load_pretrained("bert", {.strict = false}).text().c_str())` loads a pretrained body for a new head,
  /// and prints the result, the names of the tensors that were not loaded. The averages (optimizer::averaged) of all
  /// weights, loaded or not, become copies of the weights, and compensations (optimizer::states_in with
  /// precision::pure_bf16) become 0; other states keep their values. A missed evaluation counts as done. Throws
  /// `error`, with nothing changed, if the weights cannot be read, if names, shapes or configuration do not match, or
  /// if ranks read different weights.
  loaded_weights load_pretrained(std::string const& path, pretrained_options const& options = {}) {
    synchronize();
    auto const result = constrain::load_pretrained(path, options, table(), format(), engine_.arena(), *ranks_.world,
                                                   *ranks_.storage_group);
    for (int i = 0; i < table().size; ++i)
      reset_states_with_parameter(table(), i, engine_.arena(), ranks_.storage_group->rank());
    state_.missed_evaluation = 0;
    engine_.drop_gradients();
    return result;
  }

  /// Loads the newest run in directory/step-<n> that all ranks have or, if no rank has one, the run saved in the
  /// directory itself. All ranks load the same run. Returns false if no saved run exists. If a run cannot be loaded,
  /// rank 0 prints the error to `log` (null: silent), and the next older run is tried, or one that was saved meanwhile.
  /// Throws the error of `load` if no run can be loaded, or an `error` if some ranks have saved runs but no run is on
  /// all ranks, or if the directory cannot be listed.
  bool resume(std::string const& directory, std::FILE* log = stderr) {
    return resume_from(
        directory, *ranks_.world, [&](std::string const& path) { load(path); }, rank() == 0 ? log : nullptr);
  }

  /// The learning rate of the next step, scaled by the schedule and all calls to `scale_learning_rate`; 0 if neither
  /// the optimizer nor one that it wraps has a `learning_rate`. With optimizer::muon, the learning rate of its
  /// matrices; with optimizer::by_role, without the roles' factors. Throws `error` if the user's own schedule returns a
  /// factor that is negative or not finite.
  double learning_rate() const {
    return detail::learning_rate_of(hyper_) * schedule::factor(run_.schedule, state_.steps) *
           state_.learning_rate_factor;
  }
  /// Multiplies the learning rate of all later steps, in resumed runs too; no effect if neither the optimizer nor one
  /// that it wraps has a `learning_rate`. Throws `error`, with nothing changed, unless `factor` is finite and above 0,
  /// the product of all factors is at most 1e9, and all ranks pass the same factor.
  void scale_learning_rate(double factor) {
    fingerprint values;
    values.add("the factor of scale_learning_rate", factor);
    check_ranks_agree(world(), joint_call::scale_learning_rate, values);
    state_.learning_rate_factor = detail::scaled_factor(state_.learning_rate_factor, factor);
  }

private:
  using typename base::engine;
  using base::engine_, base::format, base::open_steps_, base::ranks_, base::run_, base::synchronize, base::state_,
      base::next_step_parameters, base::table, base::record_result, base::tensors;
  static constexpr bool scales_loss = policy_set::precision::value.loss_scale;

  /// Enqueues a step; on the CPU, runs it.
  [[gnu::cold]] step_ticket start_step(constrain::batch const& b) {
    constexpr bool may_overlap = engine::is_asynchronous && !scales_loss;
    synchronize(may_overlap && !run_.checked ? 1 : 0);
    [[maybe_unused]] double loss_scale = 1; // of this step
    if constexpr (scales_loss) loss_scale = tensors().setting(detail::loss_scale_setting.name);
    base::update_copies_of_step();
    [[maybe_unused]] auto enqueued = engine_.template enqueuing<typename entries::step>();
    auto const valid_labels = ranks_.count_valid_labels(
        joint_call::step, [&] { return copy_in(b); }, b);
    if (valid_labels == 0)
      throw error("step: every label is ignored, so there is no loss; pass at least one valid label");
    auto const step_parameters = next_step_parameters();
    auto h = hyper_;
    detail::scale_learning_rates(h, schedule::factor(run_.schedule, state_.steps), state_.learning_rate_factor);
    using hyperparameters = op::step_hyperparameters<optimizer, storage<entries::master>>;
    hyperparameters const prepared(h, {step_parameters.updates + 1});
    engine_.arena().write(entries::step::value.hyper.offset, &prepared, sizeof prepared);
    // The device may yet skip the step in flight: then there is one update fewer, and the device uses these values.
    if constexpr (may_overlap && !updates_in_backward<optimizer>)
      if (open_steps_.size() > 0) enqueued.use_if_skipped(hyperparameters(h, {step_parameters.updates}));
    engine_.template write_label_count<typename entries::step>(valid_labels);
    engine_.template run<typename entries::step, typename entries::step_program, joint_call::step>(step_parameters,
                                                                                                   may_overflow());
    if constexpr (scales_loss) *loss_scale_ = loss_scale;
    engine_.keep_gradients();
    auto ticket = ticket_of(enqueued, valid_labels);
    state_.steps = state_.steps.count() + 1;
    if (b.corpus != 0) state_.corpus = b.corpus, state_.position = b.next;
    return ticket;
  }

  /// The ticket of the step that has just been run or enqueued.
  template <class enqueuing> step_ticket ticket_of(enqueuing& enqueued, std::int64_t valid_labels) {
    auto const& plan = entries::step::value;
    detail::step_outputs const outputs{plan.result("clip_coefficient"), plan.result("loss"),
                                       plan.result("gradient_squares"), table(), updates_in_backward<optimizer>};
    if constexpr (engine::is_asynchronous) {
      auto step = std::make_shared<detail::open_step>(outputs, valid_labels, enqueued.end());
      open_steps_.push(step);
      return step_ticket(std::move(step));
    } else {
      auto const r = detail::result_of_step(
          outputs, valid_labels, [&](host_view const& view, std::int64_t i) { return engine_.read(view, i); });
      record_result(r);
      return step_ticket(r);
    }
  }

  /// Copies a batch into the arena. Returns this rank's number of valid labels. Throws as `step` does for a bad batch.
  std::int64_t copy_in(constrain::batch const& b) {
    // If only this rank's batch is refused, the other ranks still drop their gradients, and this rank must do the same.
    if (world().size() > 1) engine_.drop_gradients();
    detail::check_batch(b, engine::template needs<typename entries::step>);
    return engine_.template begin<typename entries::step>("step", b.every_input(), b.every_label());
  }

  /// For checked mode: whether the loss scale can still fall. If it can, an overflow of scaled gradients only skips the
  /// step; otherwise, it is an error.
  bool may_overflow() const {
    if constexpr (scales_loss)
      return run_.checked && tensors().setting(detail::loss_scale_setting.name) > detail::smallest_loss_scale;
    else return false;
  }

  static saved_configuration configuration() {
    return {policy_name<typename policy_set::precision>(),
            policy_set::optimizer_name(),
            task::tokens,
            policy_set::optimizer_state(),
            policy_set::optimizer_state_names(),
            policy_set::kept_on_resume()};
  }

  hyper hyper_;
  checked_unique_ptr<double> loss_scale_ =
      std::make_unique<double>(1); // of the last step; on the heap, because views point to it
};

} // namespace constrain
