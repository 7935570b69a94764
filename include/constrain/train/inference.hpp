#pragma once

#include "constrain/model/task.hpp"
#include "constrain/policy/policies.hpp"
#include "constrain/train/agreement.hpp"
#include "constrain/train/checks.hpp"
#include "constrain/train/evaluator.hpp"
#include "constrain/train/inference_entries.hpp"
#include "constrain/train/initialize.hpp"
#include "constrain/train/saved/resume.hpp"
#include "constrain/train/settings.hpp"

#include <string>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The base class of an inference object of `task_` with the policies in `list`.
template <class task_, class... list>
using evaluator_of_inference =
    evaluator<inference_entries<typename task_or_refusal<task_, refusals::inference_argument_is_not_a_task>::task,
                                std::conditional_t<is_task<task_>, policies<list...>, policies<>>>>;

} // namespace detail

/// Evaluates, predicts and generates with a task's model. With the same policies and weights, the results equal a
/// trainer's bit for bit (with optimizer::averaged, if the weights equal the trainer's averages), but there are no
/// gradients, optimizer states or master weights. Parameters of two or more dimensions are stored in the type that
/// GEMMs read: 2 bytes per element with bf16, fp16 and pure_bf16. With bf16 and fp16, a CUDA device also stores the
/// biases of linear layers in this type. A trainer's policies can be used unchanged; the optimizer and the policies of
/// accumulation and checkpointing have no effect. With a parallel policy, all ranks must make the following calls, in
/// the same order: construction, `evaluate`, `predict`, `generate`, `set`, `in_any_rank`, `load_pretrained`, copies out
/// of views of tensors that several ranks hold together, and destruction.
///
///     ct::inference<task, ct::precision::bf16> model;
///     model.load_pretrained("runs/gpt");
///     std::puts(model.generate("The ", 20).c_str());
template <class task_, class... list> class inference : public detail::evaluator_of_inference<task_, list...> {
  using base = detail::evaluator_of_inference<task_, list...>;

public:
  using typename base::entries, typename base::task, typename base::policy_set, typename base::real;
  using base::rank, base::world;

  static constexpr memory_plan memory = entries::memory;                    // planned bytes of one rank, by part
  static constexpr std::int64_t parameter_count = entries::parameter_count; // elements of all parameters
  // Of evaluating one micro-batch on one rank; an upper bound if chunks of logits are skipped (see fusion::all).
  static constexpr double flops = entries::work.flops;

  /// Starts with the model's initial weights. Only the options `.seed`, `.checked`, `.measure_memory`, `.deadline`,
  /// `.cuda_device` and `.cuda_stream` have an effect; `.dropout` only sets the value of setting("dropout"), because
  /// dropout is never applied. Throws `error` for any option out of range, for a `.dropout` other than 0 without
  /// ct::dropout, for a `.cuda_stream` without CUDA, if the device, the stream, MPI or NCCL cannot be used, if the
  /// arena cannot be allocated, if the world size does not fit the parallel policy, or if the program or the options
  /// differ between ranks.
  explicit inference(run_options const& run = {}) : base(run) {
    if constexpr (policy_set::parallelism::value.distributed)
      if (world().size() > 1) check_ranks_agree(world(), joint_call::construction, fingerprint_of(run));
    agreed(world(), joint_call::construction, [&] {
      detail::check_run(run, policy_set::device::value.is_cuda);
      detail::check_settings(table(), run);
      engine_.allocate(run);
      state_.seed = run.seed;
      initialize(table(), state_.seed, engine_.arena(), ranks_.storage_group->rank());
      detail::start_settings(tensors(), run);
    });
    engine_.connect(ranks_.data(), ranks_.zero(), run);
  }
  inference(inference const&) = delete; // an inference object cannot be copied; use a reference or std::move
  inference(inference&&) = default;
  inference& operator=(inference const&) = delete; // an inference object cannot be copied; use a reference or std::move
  inference& operator=(inference&&) = default;

  /// Loads weights: from a directory or safetensors file of Hugging Face Transformers, from a trainer's saved run, or
  /// from the newest run in path/step-<n> that all ranks have. If `path` contains a step-<n> on any rank, only the runs
  /// of this form are tried: if the newest cannot be loaded, rank 0 prints the error to stderr, and the next older run
  /// is tried, or one that was saved meanwhile. The weights are rounded to the type in which the object stores them. If
  /// a saved run has averaged weights (optimizer::averaged), loads the weights, not the averages. `options`, result: as
  /// for `trainer::load_pretrained`. Throws `error`, with nothing changed, if the weights cannot be read, if names,
  /// shapes or configuration do not match, if ranks read different weights, or if some ranks have a step-<n> but no
  /// step-<n> is on all ranks.
  loaded_weights load_pretrained(std::string const& path, pretrained_options const& options = {}) {
    auto parameters = table();
    parameters.owner = "an inference object";
    loaded_weights result;
    auto const load = [&](std::string const& source) {
      result = constrain::load_pretrained(source, options, parameters, format(), engine_.arena(), world(),
                                          *ranks_.storage_group);
    };
    auto const has_series = [&]() -> std::int64_t { return saved_series(path).steps().empty() ? 0 : 1; };
    bool const loads_series = agreed_sum(world(), joint_call::pretrained, has_series) > 0;
    // If all runs of the series were removed after the listing, this loads the weights in `path` itself, or throws if
    // there are none.
    auto* const log = rank() == 0 ? stderr : nullptr;
    if (!loads_series || !load_newest(saved_series(path), world(), joint_call::pretrained, load, log)) load(path);
    return result;
  }

private:
  using base::engine_, base::format, base::ranks_, base::state_, base::table, base::tensors;

  /// The values that must be equal on all ranks at construction.
  static fingerprint fingerprint_of(run_options const& run) {
    fingerprint values;
    detail::add_build(values, policy_set::name(), table());
    values.add("the number of sequences in a micro-batch", task::sequences);
    values.add("the number of sequences in a micro-batch of evaluate", detail::evaluation_sequences<task>);
    values.add("the number of tokens in a sequence", task::tokens);
    values.add_hash("the plan of an evaluation", detail::hash_of_plan(entries::evaluate::value));
    detail::add_run(values, run);
    return values;
  }
};

} // namespace constrain
