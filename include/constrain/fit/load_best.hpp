#pragma once

#include "constrain/base/number_check.hpp"
#include "constrain/comm/agreement.hpp"
#include "constrain/train/saved/resume.hpp"
#include "constrain/train/training_state.hpp"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Throws `error` unless `directory`, the `.best` of `fit`, holds what a run in the state `s` saved when it reached its
/// lowest validation loss. `found`: whether there is a saved run. Also throws the errors of `saved_state`.
[[gnu::cold]] void check_holds_best(std::string const& directory, bool found, training_state const& s);

/// Loads the weights saved in `directory`, the `.best` of `fit`. With averages (optimizer::averaged), which the
/// evaluations read, also loads these averages and all other tensors: optimizer states and settings. Does nothing if
/// this run has no validation loss. Collective. Throws the errors of `found_by_all` and `check_holds_best`, and of
/// `trainer::load_pretrained` or, with averages, of `trainer::load_tensors`.
template <class trainer> [[gnu::noinline, gnu::cold]] void load_best(trainer& t, std::string const& directory) {
  if (!is_finite(t.state().best_validation_loss)) return;
  bool const found = found_by_all(t.world(), joint_call::fit, directory);
  agreed(t.world(), joint_call::fit, [&] { check_holds_best(directory, found, t.state()); });
  if constexpr (trainer::entries::step::keeps_averages) t.load_tensors(directory);
  else t.load_pretrained(directory);
}

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/fit/load_best.ipp"
#endif
