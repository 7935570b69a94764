#pragma once

#include "constrain/base/error.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/base/units.hpp"
#include "constrain/data/corpus.hpp"
#include "constrain/data/tail.hpp"
#include "constrain/train/interval.hpp"

#include <cstdint>
#include <cstdio>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// How long `fit` trains and what it does on the way.
struct fit_options {
  optimizer_steps steps = -1; // of the whole run, resumed ones included; -1: 100, or as many as `.epochs` takes
  std::int64_t epochs = 0;    // of the corpus, resumed ones included; 0: as many as `.steps` takes. With both, what
                              // is reached first
  data::corpus const* validation = nullptr; // what is evaluated; null: nothing is
  interval evaluate_every = 0;              // with a validation corpus; 0: at the end alone
  std::string directory{};                  // of the checkpoint; none is saved where it is empty
  interval save_every = 0;                  // with a directory; 0: at the end alone
  std::FILE* log = stdout;                  // null: silent
  interval log_every = 1;                   // steps, of which the line is printed; 0: none. Records have every step
  std::int64_t keep_last = 0;  // so many checkpoints, each in directory/step-<n>; 0: one, in the directory itself
  std::string best{};          // of the checkpoint with the lowest validation loss; none where it is empty
  bool load_best = false;      // its weights, at the end
  std::int64_t patience = 0;   // evaluations in a row without a lower loss that end the run; 0: none do
  std::int64_t plateau = 0;    // evaluations in a row without a lower loss that scale the learning rate; 0: none do
  double plateau_factor = 0.1; // by this
  data::tail tail = data::tail::carry; // what becomes of an epoch's samples that fill no batch
  std::string records{}; // directory of steps.jsonl, steps.csv, TensorBoard's events, summary.json, report.html
};

namespace detail {

/// Throws `error` for options that do not go together, or of which nothing follows.
[[gnu::noinline, gnu::cold]] inline void check_fit_options(fit_options const& options) {
  if (options.steps != -1) check_count("fit_options", ".steps", options.steps.count(), 0);
  check_count("fit_options", ".epochs", options.epochs, 0);
  options.evaluate_every.check("fit_options", ".evaluate_every");
  options.save_every.check("fit_options", ".save_every");
  options.log_every.check("fit_options", ".log_every");
  check_count("fit_options", ".keep_last", options.keep_last, 0);
  check_count("fit_options", ".patience", options.patience, 0);
  check_count("fit_options", ".plateau", options.plateau, 0);
  check_number("fit_options", ".plateau_factor", options.plateau_factor, number_range::above_zero);
  auto const needs_validation = [&](bool asked, char const* what) {
    if (asked && options.validation == nullptr) throw error({"fit: ", what, ", but there is no .validation; give one"});
  };
  needs_validation(!options.best.empty(), ".best keeps the checkpoint of the lowest validation loss");
  needs_validation(options.patience > 0, ".patience counts evaluations");
  needs_validation(options.plateau > 0, ".plateau counts evaluations");
  if (options.load_best && options.best.empty())
    throw error({"fit: .load_best loads the checkpoint that .best names, but that is empty; name a directory"});
}

} // namespace detail

} // namespace constrain
