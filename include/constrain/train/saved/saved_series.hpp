#pragma once

#include "constrain/base/concat.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The saved runs of one training run, each in directory/step-<n>, where n is the optimizer step.
class saved_series {
public:
  /// The series in `directory`, which need not exist yet.
  explicit saved_series(std::string directory) : directory_(std::move(directory)) {}

  /// The path of the run saved at step `step`.
  std::string path(std::int64_t step) const { return concat({directory_, "/", name(step)}); }

  /// The path to save to at step `step`. Throws `error` if the path is a symbolic link: a save would replace the link's
  /// target.
  [[gnu::cold]] std::string path_to_save(std::int64_t step) const;

  /// The step n of a directory entry named step-<n>, such as 40 of "step-40"; nullopt if the name has a different form.
  static std::optional<std::int64_t> step_of(std::string const& entry_name);

  /// The steps n for which `directory` contains an entry step-<n>, or .step-<n>.previous of an interrupted save (see
  /// io/directory_replace.hpp), newest first. Empty if `directory` does not exist, is not a directory or is a loop of
  /// links. Throws `error` if it cannot be listed for any other reason.
  [[gnu::cold]] std::vector<std::int64_t> steps() const;

  /// Of the saved runs with a step of at most `last`, removes all but the newest `count`. Does nothing if step `last`
  /// is not saved. Neither counts nor removes a saved run whose manifest cannot be read, or that is a link, belongs to
  /// another user, has no valid mark (for example, because it was copied or moved here; see io/directory_mark.hpp), or
  /// exists only as '.step-<n>.previous'. Removes, without counting, a saved run that has no manifest: its removal was
  /// interrupted. If other files are left in the directory of a removed run, the directory is renamed to
  /// 'step-<n>.kept-<suffix>'. Also removes the directories that interrupted saves of steps of at most `last` left:
  /// temporary ones, and each '.step-<n>.previous' that such a save had already replaced (`remove_abandoned` and
  /// `remove_replaced` in io/directory_replace.hpp). Ignores failures: the next call tries again.
  [[gnu::cold]] void remove_old(std::int64_t count, std::int64_t last) const;

private:
  static std::string name(std::int64_t step) { return concat({"step-", step}); }

  /// The step n of a directory entry whose name begins with '.step-<n>', followed by `ending`; nullopt if the name has
  /// a different form.
  [[gnu::cold]] static std::optional<std::int64_t> hidden_step(std::string const& entry_name, std::string_view ending);

  /// The steps of a directory whose entries are named `names`, as `steps` returns them.
  [[gnu::cold]] static std::vector<std::int64_t> steps_of(std::vector<std::string> const& names);

  std::string directory_;
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/saved/saved_series.ipp"
#endif
