#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/comm/fingerprint.hpp"
#include "constrain/data/dataset.hpp"
#include "constrain/model/task.hpp"
#include "constrain/train/hyperparameters.hpp"
#include "constrain/train/interval.hpp"
#include "constrain/train/parameter_table.hpp"
#include "constrain/train/run_options.hpp"
#include "constrain/train/saved/tensor_files.hpp"
#include "constrain/train/training_state.hpp"

#include <string>
#include <type_traits>

// Checks that all ranks were started with the same program, options and data: each rank builds a fingerprint (a list of
// names and values), and the error names the first value that differs.

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Adds the hyperparameters that `for_each_hyperparameter` visits, with " of the optimizer" after their names.
template <class hyper> void add_hyper(fingerprint& to, hyper const& h) {
  detail::for_each_hyperparameter(h, [&](std::string const& field, auto value) {
    to.add(concat({field, " of the optimizer"}), value);
  });
}

/// Adds the run's options, except `.measure_memory`, `.cuda_device` and `.cuda_stream`, which may differ. Of a schedule
/// that is a user's function, adds only its kind ("own function") and the factor of the first step.
void add_run(fingerprint& to, run_options const& run);

/// Adds properties of the compiled program: policies, `CONSTRAIN_VARIANT` (instruction set, libraries and other build
/// options), compiler, and each parameter's name and shape.
void add_build(fingerprint& to, std::string const& policies, parameter_list const& parameters);

/// A hash of the op names of a plan's kernel calls and the arena offsets of their operands.
template <class plan> std::uint64_t hash_of_plan(plan const& p) {
  std::string text;
  for (auto const& step : p.steps) {
    if (step.op != nullptr) text += step.op->name;
    for (int k = 0; k < step.inputs + step.outputs; ++k)
      text += concat({" ", p.operands[step.first_operand + k].offset});
  }
  return hash_of(text);
}

/// Adds all fields of the training state.
void add_state(fingerprint& to, training_state const& s);

/// Adds the hash of a data set's content (0 for null) and, for a corpus or null, the number of tokens (-1 for null).
/// `origin`: the text after "corpus" or "examples" in the error, such as " of .validation"; "" for the training data.
void add_dataset(fingerprint& to, std::string const& origin, data::dataset_pointer const& d);

/// The values that must be equal on all ranks when a trainer is constructed.
template <class trainer>
fingerprint fingerprint_of(typename trainer::hyper const& h, run_options const& run, parameter_list const& parameters) {
  fingerprint values;
  add_build(values, trainer::policy_set::name(), parameters);
  values.add("the number of sequences in a micro-batch", trainer::task::sequences);
  values.add("the number of sequences in a micro-batch of evaluate", evaluation_sequences<typename trainer::task>);
  values.add("the number of tokens in a sequence", trainer::task::tokens);
  values.add("the number of micro-batches", trainer::micro_batches);
  values.add_hash("the plan of a step", hash_of_plan(trainer::entries::step::value));
  values.add("the optimizer", trainer::policy_set::optimizer_name());
  add_run(values, run);
  add_hyper(values, h);
  return values;
}

/// Throws `error` on every rank if a value of `fingerprint_of` differs between ranks. Collective with a parallel
/// policy; without one, does nothing.
template <class trainer>
void check_trainers_agree(communicator& world, typename trainer::hyper const& h, run_options const& run,
                          parameter_list const& parameters) {
  if constexpr (trainer::policy_set::parallelism::value.distributed)
    if (world.size() > 1)
      check_ranks_agree(world, joint_call::construction, fingerprint_of<trainer>(h, run, parameters));
}

/// The values that must be equal on all ranks when `fit` starts. `.log`, `.log_every`, `.records` and the callbacks of
/// `fit` may differ.
template <class options>
fingerprint fingerprint_of_fit(options const& o, data::dataset_pointer const& d, training_state const& state) {
  fingerprint values;
  add_state(values, state);
  add_dataset(values, "", d);
  add_dataset(values, " of .validation", o.validation);
  values.add("the number of sets in .further_validation", o.further_validation.size());
  for (auto const& validation : o.further_validation)
    add_dataset(values, concat({" '", validation.name, "' of .further_validation"}), validation.data);
  values.add(".steps", o.steps.count()), values.add(".epochs", o.epochs);
  auto const describe = [&](std::string const& suffix, interval const& event) {
    event.describe([&](char const* name, std::int64_t value) { values.add(name + suffix, value); });
  };
  describe(" of .evaluate_every", o.evaluate_every), describe(" of .save_every", o.save_every);
  values.add(".directory", concat({"'", o.directory, "'"})), values.add(".keep_last", o.keep_last);
  values.add(".max_shard_size", o.max_shard_size.count());
  values.add(".best", concat({"'", o.best, "'"})), values.add(".load_best", o.load_best);
  values.add(".patience", o.patience), values.add(".plateau", o.plateau),
      values.add(".plateau_factor", o.plateau_factor);
  values.add(".tail (0: carry, 1: drop, 2: pad)", static_cast<int>(o.tail));
  return values;
}

/// Throws `error` on every rank if a value of `fingerprint_of_fit` differs between ranks. Collective with a parallel
/// policy; without one, does nothing.
template <class trainer, class options>
void check_fits_agree(trainer const& t, options const& o, data::dataset_pointer const& d) {
  if constexpr (trainer::policy_set::parallelism::value.distributed)
    if (t.ranks() > 1) check_ranks_agree(t.world(), joint_call::fit, fingerprint_of_fit(o, d, t.state()));
}

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/agreement.ipp"
#endif
