#pragma once

#include "constrain/fit/load_best.hpp"

#include "constrain/base/error.hpp"
#include "constrain/train/saved/saved_run.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE void check_holds_best(std::string const& directory, bool found,
                                                     training_state const& s) {
  // Another run with the same seed, or a part of this run that was not saved, may have reached a lower loss.
  auto const is_of_this_run = [&](training_state const& saved) {
    return saved.best_validation_loss == s.best_validation_loss && saved.evaluations_since_best == 0 &&
           !has_other_validation(saved, s.validation) && saved.seed == s.seed;
  };
  if (!found || !is_of_this_run(saved_state(directory)))
    throw error({"fit: .load_best loads the weights that the run had when its validation loss was lowest (",
                 number_text(s.best_validation_loss), "), but .best '", directory,
                 "' does not hold them; give the .best of the call that reached this loss, if it still exists, or omit "
                 ".load_best"});
}

} // namespace constrain::detail
