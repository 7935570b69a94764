#pragma once

#include "constrain/base/units.hpp"
#include "constrain/data/dataset.hpp"
#include "constrain/data/tail.hpp"
#include "constrain/train/interval.hpp"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A validation set besides `fit_options::validation`.
struct named_validation {
  std::string name{};                   // name in the log and the records: unique, UTF-8, not empty, no NUL
  data::dataset_pointer data = nullptr; // like `fit_options::validation`, but not null
};

/// Options of `fit`. "The whole run" includes the steps before a resume; "a lower loss" is a validation loss lower than
/// all earlier ones of the same data. An `interval` is a number of steps or a part of the whole run
/// (train/interval.hpp). A call that takes no step, for example because the run is already complete, does not change
/// summary.json or report.html; it neither evaluates nor saves, unless it makes up for an evaluation that a signal
/// prevented. `fit` throws `error` for a field that is not valid or needs a field that is not set, for a path with a
/// NUL byte, and if a save would replace or remove another output: neither `.best` nor `.records` may be, or be inside,
/// a directory that a save to `.directory` replaces or removes, and neither `.directory` nor `.records` may be, or be
/// inside, `.best`.
struct fit_options {
  optimizer_steps steps = -1; // steps of the whole run, at least 0; -1: no limit if `.epochs` is set, else 100
  std::int64_t epochs = 0;    // epochs of the whole run, at least 0; 0: no limit. If `.steps` is set too, the limit
                              // reached first ends the run
  data::dataset_pointer validation = nullptr; // validation data with at least one valid label: `&corpus` if the
                                              // training data is a corpus, else `&examples`; null: no evaluation
  std::vector<named_validation> further_validation{}; // more data to evaluate each time `.validation` (needed) is
                                                      // evaluated; `.best`, `.patience` and `.plateau` ignore it
  interval evaluate_every = 0; // when to evaluate `.validation` (needed), besides the end; 0: only at the end. If a
                               // signal ends the run, there is no evaluation at the end; when the run is resumed, `fit`
                               // makes up for an evaluation that was due
  std::string directory{};     // directory to save the run in; empty: the run is not saved
  interval save_every = 0;     // when to save to `.directory` (needed), besides the end; 0: only at the end
  std::FILE* log = stdout;     // stream for the text that rank 0 prints, such as progress lines; null: silent
  interval log_every = 1;      // when to print a progress line; 0: never. `.records` has every step
  std::int64_t keep_last = 0;  // number of saved runs to keep, at least 0, each in directory/step-<n>; needs
                               // `.directory`; 0: one, in the directory itself
  bytes max_shard_size{};      // maximum total size of the tensors in one file with weights in `.directory` and `.best`
                               // (one of them is needed), like `save_options::max_shard_size`; 0: one file
  std::string best{};          // directory to save the run in after each evaluation with a lower loss; needs
                               // `.validation`; empty: not saved
  bool load_best = false;      // at the end of the run, load the weights saved in `.best` (with optimizer::averaged:
                               // all tensors saved there), unless a signal ends the run or the run has no validation
                               // loss; needs `.best`. `fit` throws if `.best` does not hold what this run saved at its
                               // lowest loss
  std::int64_t patience = 0;   // end the run after this many (at least 0) evaluations in a row without a lower loss;
                               // needs `.evaluate_every`; 0: never
  std::int64_t plateau = 0;    // scale the learning rate (`trainer::scale_learning_rate`) each time this many (at least
                               // 0) evaluations in a row had no lower loss; needs `.evaluate_every`; 0: never
  double plateau_factor = 0.1; // factor by which `.plateau` scales the learning rate, in (0, 1)
  data::tail tail = data::tail::carry; // what happens to an epoch's last samples if they do not fill a batch
  std::string records{}; // directory for steps.jsonl, steps.csv, summary.json, report.html and TensorBoard event files;
                         // empty: none
};

namespace detail {

/// Throws `error` for an option that is out of range, for a path with a NUL byte, for an invalid name or a set without
/// data in `.further_validation`, and for an option that needs another option that is not set.
[[gnu::cold]] void check_fit_options(fit_options const& options);

} // namespace detail

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/fit/options.ipp"
#endif
