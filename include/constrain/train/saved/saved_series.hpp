#pragma once

#include "constrain/base/concat.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The saved runs of one training run, each in directory/step-<n>, where n is the optimizer step.
class saved_series {
public:
  /// `directory` may not exist yet.
  explicit saved_series(std::string directory) : directory_(std::move(directory)) {}

  /// The path of the run saved at a step.
  std::string path(std::int64_t step) const { return concat({directory_, "/", name(step)}); }

  /// The path to save a step to. Throws `error` if a symbolic link is there: a save would replace the link's target.
  [[gnu::cold]] std::string path_to_save(std::int64_t step) const;

  /// The step of a directory name like "step-40"; nullopt for other names.
  static std::optional<std::int64_t> step_of(std::string const& other);

  /// The steps that have a directory, newest first.
  [[gnu::cold]] std::vector<std::int64_t> steps() const;

  /// Removes all but the newest `count` saved runs with a step of at most `last`. A saved run that is damaged, is a
  /// link, belongs to another user, or was copied or moved here is neither counted nor removed: see
  /// io/directory_mark.hpp.
  [[gnu::cold]] void keep(std::int64_t count, std::int64_t last) const;

private:
  static std::string name(std::int64_t step) { return concat({"step-", step}); }

  std::string directory_;
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/saved/saved_series.ipp"
#endif
