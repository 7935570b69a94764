#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/comm/fingerprint.hpp"
#include "constrain/data/corpus.hpp"
#include "constrain/train/hyperparameters.hpp"
#include "constrain/train/interval.hpp"
#include "constrain/train/parameter_table.hpp"
#include "constrain/train/run_options.hpp"
#include "constrain/train/saved/tensor_files.hpp"
#include "constrain/train/training_state.hpp"

#include <string>
#include <type_traits>
#include <variant>

// Checks that all ranks were started with the same settings: each rank builds a fingerprint of (name, value) fields,
// and the error names the first field that differs.

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Adds an optimizer's hyperparameters: those that `for_each_hyperparameter` can read.
template <class hyper> void add_hyper(fingerprint& to, hyper const& h) {
  for_each_hyperparameter(h, [&](std::string const& field, auto value) { to.add(field + " of the optimizer", value); });
}

/// Adds the schedule's kind and its fields.
[[gnu::noinline]] inline void add_schedule(fingerprint& to, schedule::any const& s) {
  to.add("the kind of .schedule", s.index() == 0 ? "constant" : s.index() == 1 ? "linear" : "cosine");
  std::visit(
      [&](auto const& chosen) {
        to.add(".warmup of the schedule", chosen.warmup.count());
        if constexpr (requires { chosen.minimum; }) {
          to.add(".steps of the schedule", chosen.steps.count());
          to.add(".minimum of the schedule", chosen.minimum);
        }
      },
      s);
}

/// Adds the run's options.
[[gnu::noinline]] inline void add_run(fingerprint& to, run_options const& run) {
  to.add(".seed", run.seed), to.add(".clip_norm", run.clip_norm), to.add(".dropout", run.dropout);
  add_schedule(to, run.schedule);
  to.add(".checked", run.checked), to.add(".deadline", run.deadline);
}

/// Adds what the program was compiled with: policies, instruction set, compiler, and each parameter's name and shape.
[[gnu::noinline]] inline void add_build(fingerprint& to, std::string const& policies,
                                        parameter_list const& parameters) {
  to.add("the set of policies", policies);
  to.add("what the program was compiled for", CONSTRAIN_TEXT(CONSTRAIN_VARIANT));
#if defined(__VERSION__)
  to.add("the compiler", __VERSION__);
#endif
  to.add("the number of parameters", parameters.size);
  for (int i = 0; i < parameters.size; ++i) {
    auto const& info = parameters.parameters[i];
    std::string text = concat({parameters.name(i), " ["});
    if (info.stacked) text += concat({info.iterations, ", "});
    for (int k = 0; k < info.shape.rank; ++k) text += concat({(k > 0 ? ", " : ""), info.shape.extent[k]});
    to.add("parameter " + std::to_string(i), text + "]");
  }
}

/// Hash of a plan's step table: each step's op name and the arena offsets of its operands.
template <class plan> std::uint64_t hash_of_plan(plan const& p) {
  std::string text;
  for (auto const& step : p.steps) {
    if (step.op != nullptr) text += step.op->name;
    for (int k = 0; k < step.inputs + step.outputs; ++k)
      text += ' ' + std::to_string(p.operands[step.first_operand + k].offset);
  }
  return hash_of(text);
}

/// Adds the training state: counters, position in the corpus, best validation loss.
[[gnu::noinline]] inline void add_state(fingerprint& to, training_state const& s) {
  to.add("the number of steps done", s.steps.count()), to.add("the number of steps skipped", s.skipped);
  to.add("the seed of the run", s.seed);
  to.add_hash("the fingerprint of the corpus of the last step", s.corpus);
  to.add("the epoch", s.position.epoch), to.add("the sample in the epoch", s.position.sample);
  to.add("the lowest validation loss", s.best_validation_loss);
  to.add("the number of evaluations since the lowest loss", s.evaluations_since_best);
  to.add("the factor of the learning rate", s.learning_rate_factor);
}

/// Adds a corpus by size and content hash; null: no such corpus (size -1).
[[gnu::noinline]] inline void add_corpus(fingerprint& to, std::string const& which, data::corpus const* corpus) {
  to.add("the number of tokens of the " + which, corpus == nullptr ? -1 : corpus->size());
  to.add_hash("the fingerprint of the " + which, corpus == nullptr ? 0 : corpus->fingerprint());
}

/// The fields that must be equal on all ranks when a trainer is constructed.
template <class trainer>
fingerprint fingerprint_of(typename trainer::hyper const& h, run_options const& run, parameter_list const& parameters) {
  fingerprint all;
  add_build(all, trainer::policy_set::name(), parameters);
  all.add("the number of sequences in a micro-batch", trainer::task::sequences);
  all.add("the number of tokens in a sequence", trainer::task::tokens);
  all.add("the number of micro-batches", trainer::micro_batches);
  all.add_hash("the plan of a step", hash_of_plan(trainer::entries::step::value));
  all.add("the optimizer", trainer::policy_set::optimizer_name());
  add_run(all, run);
  add_hyper(all, h);
  return all;
}

/// Throws `error` on every rank if any of these fields differs between ranks. Collective for distributed policies.
template <class trainer>
void check_trainers_agree(communicator& world, typename trainer::hyper const& h, run_options const& run,
                          parameter_list const& parameters) {
  if constexpr (trainer::policy_set::parallelism::value.distributed)
    if (world.size() > 1)
      check_ranks_agree(world, joint_call::construction, fingerprint_of<trainer>(h, run, parameters));
}

/// The fields that must be equal on all ranks when `fit` starts. The log, `.records` and the callbacks may differ.
template <class options>
fingerprint fingerprint_of_fit(options const& o, data::corpus const& corpus, training_state const& state) {
  fingerprint all;
  add_state(all, state);
  add_corpus(all, "corpus", &corpus);
  add_corpus(all, ".validation corpus", o.validation);
  all.add(".steps", o.steps.count()), all.add(".epochs", o.epochs);
  auto const describe = [&](std::string const& which, interval const& every) {
    every.describe([&](char const* name, std::int64_t value) { all.add(name + which, value); });
  };
  describe(" of .evaluate_every", o.evaluate_every), describe(" of .save_every", o.save_every);
  all.add(".directory", o.directory), all.add(".keep_last", o.keep_last);
  all.add(".best", o.best), all.add(".load_best", o.load_best);
  all.add(".patience", o.patience), all.add(".plateau", o.plateau), all.add(".plateau_factor", o.plateau_factor);
  all.add(".tail", static_cast<int>(o.tail));
  return all;
}

/// Throws `error` on every rank if options, corpora or training states differ between ranks. Collective.
template <class trainer, class options>
void check_fits_agree(trainer const& t, options const& o, data::corpus const& corpus) {
  if constexpr (trainer::policy_set::parallelism::value.distributed)
    if (t.ranks() > 1) check_ranks_agree(t.world(), joint_call::fit, fingerprint_of_fit(o, corpus, t.state()));
}

} // namespace constrain::detail
