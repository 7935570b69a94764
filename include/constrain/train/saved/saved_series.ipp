#pragma once

#include "constrain/train/saved/saved_series.hpp"

#include "constrain/base/heap_sort.hpp"
#include "constrain/io/directory_mark.hpp"
#include "constrain/io/directory_replace.hpp"
#include "constrain/io/path.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <sys/stat.h>

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE std::string saved_series::path_to_save(std::int64_t step) const {
  auto const status = io::detail::status_at(AT_FDCWD, path(step));
  if (status && S_ISLNK(status->st_mode))
    throw error({"'", path(step), "' is a symbolic link, and a save there would replace the target of the link; ",
                 "remove the link or choose another directory"});
  return path(step);
}

[[gnu::cold]] CONSTRAIN_INLINE std::optional<std::int64_t> saved_series::step_of(std::string const& entry_name) {
  std::int64_t step = 0;
  if (!entry_name.starts_with("step-")) return std::nullopt;
  std::from_chars(entry_name.data() + 5, entry_name.data() + entry_name.size(), step);
  return step >= 0 && name(step) == entry_name ? std::optional(step) : std::nullopt;
}

[[gnu::cold]] CONSTRAIN_INLINE std::vector<std::int64_t> saved_series::steps() const {
  auto const names = io::directory_names(directory_);
  if (!names && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
    throw error({"the directory '", directory_, "' cannot be listed (", io::reason(), "); ",
                 io::lacks_resources() ? io::remedy() : "check the path and its permissions"});
  return names ? steps_of(*names) : std::vector<std::int64_t>{};
}

[[gnu::cold]] CONSTRAIN_INLINE std::optional<std::int64_t> saved_series::hidden_step(std::string const& entry_name,
                                                                                     std::string_view ending) {
  auto const end = entry_name.find(ending);
  if (!entry_name.starts_with('.') || end == entry_name.npos) return std::nullopt;
  return step_of(entry_name.substr(1, end - 1));
}

[[gnu::cold]] CONSTRAIN_INLINE std::vector<std::int64_t> saved_series::steps_of(std::vector<std::string> const& names) {
  constexpr std::string_view previous = ".previous";
  std::vector<std::int64_t> saved_steps;
  for (auto const& entry_name : names) {
    auto const step = entry_name.ends_with(previous) ? hidden_step(entry_name, previous) : step_of(entry_name);
    if (step) saved_steps.push_back(*step);
  }
  detail::heap_sort(saved_steps, [](std::int64_t a, std::int64_t b) { return a > b; });
  saved_steps.erase(std::unique(saved_steps.begin(), saved_steps.end()), saved_steps.end());
  return saved_steps;
}

[[gnu::cold]] CONSTRAIN_INLINE void saved_series::remove_old(std::int64_t count, std::int64_t last) const {
  io::detail::directory_handle const parent(directory_);
  if (!parent) return;
  io::detail::directory_handle const newest(parent, name(last)); // its owner is the user who saves the current run
  auto const names = parent.names();
  if (!newest || !names) return;
  for (auto const& entry_name : *names)
    if (auto const step = hidden_step(entry_name, ".partial-"); step && *step <= last)
      io::detail::remove_abandoned(parent, name(*step), newest.owner());
  for (auto const step : steps_of(*names)) {
    if (step > last) continue;
    try {
      io::detail::remove_replaced(parent, name(step), newest.owner(), path(step));
      io::detail::directory_handle const old(parent, name(step));
      auto const files = io::detail::marked_files(old, parent, name(step), newest.owner());
      if (!files) continue;
      // An interrupted removal leaves a directory without a manifest: remove this directory without counting it.
      if (io::detail::listed_files(old, path(step), true) && count-- > 0) continue;
      io::detail::remove_directory(old, parent, name(step), *files, name(step));
    } catch (error const&) {
      // A directory that cannot be removed, for example because its manifest is damaged, must not end the current run.
    }
  }
}

} // namespace constrain
