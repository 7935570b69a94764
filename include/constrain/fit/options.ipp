#pragma once

#include "constrain/fit/options.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/io/utf8.hpp"
#include "constrain/train/saved/saved_run.hpp"

#include <cstddef>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Throws `error` for a set without data, and for a name that is empty, used twice or not UTF-8, or has a NUL byte.
[[gnu::cold]] CONSTRAIN_INLINE void check_further_validation(std::vector<named_validation> const& sets) {
  for (std::size_t i = 0; i < sets.size(); ++i) {
    auto const& name = sets[i].name;
    bool const has_nul = name.find('\0') != name.npos; // the log and the event file would end the name there
    if (name.empty() || has_nul || io::find_invalid_utf8(name) != name.size())
      throw error({"fit: the name '", name.c_str(), "' in .further_validation ",
                   name.empty() ? "is empty"
                   : has_nul    ? "has a NUL byte"
                                : "is not UTF-8",
                   "; use another name"});
    if (sets[i].data == nullptr)
      throw error({"fit: '", name, "' in .further_validation has no data; give a corpus or examples"});
    for (std::size_t k = 0; k < i; ++k)
      if (sets[k].name == name)
        throw error({"fit: two sets in .further_validation have the name '", name, "'; give each its own name"});
  }
}

/// Throws `error` for a path with a NUL byte, at which the system would truncate it. `field`: the option, such as
/// ".directory".
[[gnu::cold]] CONSTRAIN_INLINE void check_path(char const* field, std::string const& path) {
  if (path.find('\0') != path.npos)
    throw error(
        {"fit_options: ", field, " is '", path, "', which has a NUL byte (shown as '?'); give a path without it"});
}

[[gnu::cold]] CONSTRAIN_INLINE void check_fit_options(fit_options const& options) {
  if (options.steps != -1) check_count("fit_options", ".steps", options.steps.count(), 0);
  check_count("fit_options", ".epochs", options.epochs, 0);
  options.evaluate_every.check("fit_options", ".evaluate_every");
  options.save_every.check("fit_options", ".save_every");
  options.log_every.check("fit_options", ".log_every");
  check_count("fit_options", ".keep_last", options.keep_last, 0);
  check_max_shard_size("fit_options", options.max_shard_size);
  check_count("fit_options", ".patience", options.patience, 0);
  check_count("fit_options", ".plateau", options.plateau, 0);
  check_number("fit_options", ".plateau_factor", options.plateau_factor, number_range::above_zero_below_one);
  if (options.tail > data::tail::pad)
    refuse_number("fit_options", ".tail", concat({static_cast<int>(options.tail)}),
                  "tail::carry, tail::drop or tail::pad");
  check_path(".directory", options.directory), check_path(".best", options.best);
  check_path(".records", options.records);
  auto const needs_validation = [&](bool is_set, char const* what) {
    if (is_set && options.validation == nullptr)
      throw error({"fit: ", what, ", but .validation is not set; give a corpus or examples"});
  };
  needs_validation(!options.further_validation.empty(), ".further_validation is evaluated along with .validation");
  check_further_validation(options.further_validation);
  needs_validation(!options.best.empty(), ".best saves the run with the lowest validation loss");
  needs_validation(!options.evaluate_every.is_never(), ".evaluate_every says when to evaluate .validation");
  needs_validation(options.patience > 0, ".patience counts evaluations");
  needs_validation(options.plateau > 0, ".plateau counts evaluations");
  if (options.evaluate_every.is_never() && (options.patience > 0 || options.plateau > 0))
    throw error("fit: .patience and .plateau count evaluations, but .evaluate_every is 0, so the only evaluation is at "
                "the end; set .evaluate_every");
  if (options.directory.empty() && (!options.save_every.is_never() || options.keep_last > 0))
    throw error(
        "fit: .save_every and .keep_last are for saves to .directory, but .directory is empty; name a directory");
  if (options.max_shard_size != bytes{} && options.directory.empty() && options.best.empty())
    throw error("fit: .max_shard_size splits the weights of saved runs, but .directory and .best are empty; name a "
                "directory");
  if (options.load_best && options.best.empty())
    throw error({"fit: .load_best loads the weights saved in .best, but .best is empty; name a directory"});
}

} // namespace constrain::detail
