#pragma once

#include "constrain/base/number_check.hpp"
#include "constrain/train/saved/resume.hpp"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Loads the weights saved in `directory`, the `.best` of `fit`. With averages (optimizer::averaged), which the
/// evaluations read, also loads these averages and all other tensors: optimizer states and settings. Does nothing if
/// this run has no validation loss, because the directory may then hold another run, or if there is no saved run.
/// Collective. Throws the errors of `found_by_all`, and of `trainer::load_pretrained` or, with averages, of
/// `trainer::load_tensors`.
template <class trainer> [[gnu::noinline, gnu::cold]] void load_best(trainer& t, std::string const& directory) {
  if (!is_finite(t.state().best_validation_loss) || !found_by_all(t.world(), joint_call::fit, directory)) return;
  if constexpr (trainer::entries::step::keeps_averages) t.load_tensors(directory);
  else t.load_pretrained(directory);
}

} // namespace constrain::detail
