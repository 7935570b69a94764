#pragma once

#include "constrain/train/agreement.hpp"

#include "constrain/base/concat.hpp"

#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The schedule's factor in the first step; NaN if the schedule throws, so that this rank still takes part in the
/// comparison of the fingerprints. If the fingerprints agree, `check_run` then throws on all ranks.
[[gnu::cold]] CONSTRAIN_INLINE double first_factor(schedule::any const& s) {
  try {
    return s(0);
  } catch (...) { return std::numeric_limits<double>::quiet_NaN(); }
}

/// Adds the schedule's kind, its fields, and its first factor, which may differ between user functions.
[[gnu::cold]] CONSTRAIN_INLINE void add_schedule(fingerprint& to, schedule::any const& s) {
  to.add("the kind of .schedule", s.name());
  for (auto const& f : s.fields()) {
    auto const name = concat({f.name, " of the schedule"});
    if (f.least < 0) to.add(name, f.value);
    else to.add(name, f.count);
  }
  to.add("the schedule's factor in the first step", first_factor(s));
}

[[gnu::cold]] CONSTRAIN_INLINE void add_run(fingerprint& to, run_options const& run) {
  to.add(".seed", run.seed), to.add(".clip_norm", run.clip_norm), to.add(".dropout", run.dropout);
  add_schedule(to, run.schedule);
  auto const& scale = run.loss_scale;
  to.add(".loss_scale.initial", scale.initial), to.add(".loss_scale.growth", scale.growth);
  to.add(".loss_scale.backoff", scale.backoff), to.add(".loss_scale.interval", scale.interval);
  to.add(".checked", run.checked), to.add(".deadline", run.deadline);
  to.add(".reduce (0: ordered, 1: fast)", static_cast<int>(run.reduce));
}

[[gnu::cold]] CONSTRAIN_INLINE void add_build(fingerprint& to, std::string const& policies,
                                              parameter_list const& parameters) {
  to.add("the set of policies", policies);
  to.add("the target of the compilation", CONSTRAIN_TEXT(CONSTRAIN_VARIANT));
#if defined(__VERSION__)
  to.add("the compiler", __VERSION__);
#endif
  to.add("the number of parameters", parameters.size);
  for (int i = 0; i < parameters.size; ++i) {
    auto const& info = parameters.parameters[i];
    std::string text = concat({parameters.name(i), " ["});
    if (info.stacked) text += concat({info.iterations, ", "});
    for (int k = 0; k < info.shape.rank; ++k) text += concat({(k > 0 ? ", " : ""), info.shape.extent[k]});
    to.add(concat({"parameter ", i}), concat({text, "]"}));
  }
}

[[gnu::cold]] CONSTRAIN_INLINE void add_state(fingerprint& to, training_state const& s) {
  to.add("the number of steps done", s.steps.count()), to.add("the number of steps skipped", s.skipped);
  to.add("the seed of the run", s.seed);
  to.add_hash("the fingerprint of the data of the last step", s.corpus);
  to.add("the epoch", s.position.epoch), to.add("the sample in the epoch", s.position.sample);
  to.add("the lowest validation loss", s.best_validation_loss);
  to.add("the number of evaluations since the lowest loss", s.evaluations_since_best);
  to.add("the step of a missed evaluation", s.missed_evaluation);
  to.add_hash("the fingerprint of the validation data", s.validation);
  to.add("the learning-rate factor", s.learning_rate_factor);
}

[[gnu::cold]] CONSTRAIN_INLINE void add_dataset(fingerprint& to, std::string const& origin,
                                                data::dataset_pointer const& d) {
  if (auto const* const examples = d.to<data::examples>())
    return to.add_hash(concat({"the fingerprint of the examples", origin}), examples->fingerprint());
  auto const* const corpus = d.to<data::corpus>();
  to.add(concat({"the number of tokens of the corpus", origin, origin.empty() ? "" : " (-1: not set)"}),
         corpus == nullptr ? -1 : corpus->size());
  to.add_hash(concat({"the fingerprint of the corpus", origin}), corpus == nullptr ? 0 : corpus->fingerprint());
}

} // namespace constrain::detail
