#pragma once

#include "constrain/base/units.hpp"
#include "constrain/data/corpus.hpp"
#include "constrain/data/tail.hpp"
#include "constrain/train/interval.hpp"

#include <cstdint>
#include <cstdio>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Options of `fit`. "The whole run" includes the steps before a resume; "a lower loss" is a validation loss lower than
/// all before. An `interval` is a number of steps or a part of the whole run (train/interval.hpp).
struct fit_options {
  optimizer_steps steps = -1; // steps of the whole run; -1: no limit if `.epochs` is set, else 100
  std::int64_t epochs = 0; // epochs of the whole run; 0: no limit. If `.steps` is set too, the limit reached first ends
                           // the run
  data::corpus const* validation = nullptr; // validation corpus; null: no evaluation
  interval evaluate_every = 0;              // when to evaluate, besides the end; 0: only at the end
  std::string directory{};                  // directory to save the run in; empty: the run is not saved
  interval save_every = 0;                  // when to save to `.directory`, besides the end; 0: only at the end
  std::FILE* log = stdout;                  // stream for the header and the progress lines; null: silent
  interval log_every = 1;                   // when to print a progress line; 0: never. `.records` has every step
  std::int64_t keep_last = 0;  // saved runs to keep, each in directory/step-<n>; 0: one, in the directory itself
  std::string best{};          // directory to save the run in at its lowest validation loss; empty: not saved
  bool load_best = false;      // load the weights saved in `.best` at the end of the run
  std::int64_t patience = 0;   // end the run after this many evaluations in a row without a lower loss; 0: never
  std::int64_t plateau = 0;    // scale the learning rate each time this many evaluations had no lower loss; 0: never
  double plateau_factor = 0.1; // by which `.plateau` scales the learning rate
  data::tail tail = data::tail::carry; // what happens to samples at an epoch's end that do not fill a batch
  std::string records{}; // directory for steps.jsonl, steps.csv, summary.json, report.html, event file; empty: none
};

namespace detail {

/// Throws `error` for an option that is out of range or that depends on another option which is not set.
[[gnu::cold]] void check_fit_options(fit_options const& options);

} // namespace detail

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/fit/options.ipp"
#endif
