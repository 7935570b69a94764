#pragma once

#include "constrain/train/saved/resume.hpp"

#include <limits>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Loads the weights saved in `directory`, the `.best` of `fit`. Also loads the averages (optimizer::averaged), since
/// the evaluations, whose losses choose the best weights, read them. Does nothing if this run has no validation loss:
/// the directory may then hold another run. Collective. Throws the errors of `trainer::load_pretrained` or, with
/// averages, of `trainer::load_tensors`.
template <class trainer> [[gnu::noinline, gnu::cold]] void load_best(trainer& t, std::string const& directory) {
  bool const has_best = t.state().best_validation_loss < std::numeric_limits<double>::infinity();
  if (!has_best || !found_by_all(t.world(), directory)) return;
  if constexpr (trainer::entries::step::keeps_averages) t.load_tensors(directory);
  else t.load_pretrained(directory);
}

} // namespace constrain::detail
