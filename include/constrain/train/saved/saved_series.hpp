#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/io/directory_mark.hpp"
#include "constrain/io/directory_replace.hpp"
#include "constrain/io/path.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The checkpoints of one run: directory/step-<n>, where n is the optimizer step.
class saved_series {
public:
  explicit saved_series(std::string directory) : directory_(std::move(directory)) {}

  /// The path of a step's checkpoint.
  std::string path(std::int64_t step) const { return concat({directory_, "/", name(step)}); }

  /// The path to save a step to. Throws `error` if it is a symbolic link: saving would replace what it points to.
  [[gnu::noinline, gnu::cold]] std::string path_to_save(std::int64_t step) const {
    auto const found = io::detail::status_at(AT_FDCWD, path(step));
    if (found && S_ISLNK(found->st_mode))
      throw error({"'", path(step), "' is a link, and what it leads to is not replaced by a checkpoint; ",
                   "remove the link or choose another directory"});
    return path(step);
  }

  /// The step of a directory name like "step-40"; nullopt for other names.
  static std::optional<std::int64_t> step_of(std::string const& other) {
    std::int64_t step = 0;
    if (!other.starts_with("step-")) return std::nullopt;
    std::from_chars(other.data() + 5, other.data() + other.size(), step);
    return name(step) == other ? std::optional(step) : std::nullopt;
  }

  /// The steps that have a directory, newest first.
  [[gnu::noinline, gnu::cold]] std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> found;
    for (auto const& name : io::directory_names(directory_).value_or(std::vector<std::string>{})) {
      if (auto const step = step_of(name)) found.push_back(*step);
    }
    std::sort(found.begin(), found.end());
    std::reverse(found.begin(), found.end());
    return found;
  }

  /// Removes all but the newest `count` checkpoints with a step of at most `last`. A checkpoint that is damaged, is a
  /// link, belongs to another user, or was copied or moved here is neither counted nor removed: see
  /// io/directory_mark.hpp.
  [[gnu::noinline, gnu::cold]] void keep(std::int64_t count, std::int64_t last) const {
    io::detail::directory_handle const holder(directory_);
    if (!holder) return;
    io::detail::directory_handle const newest(holder, name(last)); // its owner is the user who saves this run
    if (!newest) return;
    for (auto const step : steps()) {
      if (step > last) continue;
      io::detail::directory_handle const old(holder, name(step));
      auto const files = io::detail::marked_files(old, holder, name(step), newest.owner());
      if (!files) continue;
      try {
        // One without a manifest is the rest of an interrupted removal.
        if (io::detail::listed_files(old, path(step)) && count-- > 0) continue;
        io::detail::remove_directory(old, holder, name(step), *files, name(step) + ".kept-" + io::unlikely_suffix());
      } catch (error const&) {}
    }
  }

private:
  static std::string name(std::int64_t step) { return concat({"step-", step}); }

  std::string directory_;
};

} // namespace constrain
