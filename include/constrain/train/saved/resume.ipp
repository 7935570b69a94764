#pragma once

#include "constrain/train/saved/resume.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/io/directory_reader.hpp"
#include "constrain/train/ranks.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <span>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Throws the error for a saved run that only some ranks find. The error names one rank that finds the run and one that
/// does not. `call`: the library call, for the error. `finds_run`: whether this rank finds the run. Collective.
[[noreturn, gnu::cold]] CONSTRAIN_INLINE void throw_found_by_some(communicator& world, joint_call call,
                                                                  std::string const& directory, bool finds_run) {
  auto const found_on = find_lowest(world, finds_run ? world.rank() : world.size()).value;
  auto const missing_on = find_lowest(world, finds_run ? world.size() : world.rank()).value;
  throw_agreed(concat({name_of(call), ": rank ", found_on, " finds a saved run in '", directory, "', but rank ",
                       missing_on, " does not; give all ranks a directory that they share"}));
}

[[gnu::cold]] CONSTRAIN_INLINE bool found_by_all(communicator& world, joint_call call, std::string const& directory) {
  bool finds_run = false;
  auto const ranks_with_run =
      agreed_sum(world, call, [&]() -> std::int64_t { return finds_run = io::directory_reader::finds(directory); });
  if (ranks_with_run != 0 && ranks_with_run != world.size()) throw_found_by_some(world, call, directory, finds_run);
  return ranks_with_run > 0;
}

using remaining_steps = std::span<std::int64_t const>; // this rank's saved steps that have not been tried, newest first

/// A saved run that all ranks have.
struct common_run {
  std::int64_t step = -1;    // -1: no such run
  std::int64_t skipped = -1; // this rank's newest step that is skipped because another rank lacks it; -1: none
  bool is_exhausted = false; // whether no rank had a saved run left
};

/// Finds the newest saved run that all ranks have in `remaining`. Removes this run and all newer runs from `remaining`.
/// Collective.
[[gnu::cold]] CONSTRAIN_INLINE common_run next_common(communicator& world, remaining_steps& remaining) {
  common_run run;
  for (;;) {
    auto const [step, ranks] = find_lowest(world, remaining.empty() ? -1 : remaining.front());
    bool const is_common = ranks == world.size();
    run.is_exhausted = step < 0 && is_common;
    if (step < 0) return run;
    if (is_common) {
      remaining = remaining.subspan(1);
      run.step = step;
      return run;
    }
    if (run.skipped < 0 && remaining.front() > step) run.skipped = remaining.front();
    while (!remaining.empty() && remaining.front() > step) remaining = remaining.subspan(1);
  }
}

/// Throws the error for a series without a saved run that all ranks have. The error names the lowest of the ranks'
/// newest steps in `remaining`. At least one rank has no step left, and so lacks this step. Collective.
[[noreturn, gnu::cold]] CONSTRAIN_INLINE void throw_found_by_some(communicator& world, joint_call call,
                                                                  saved_series const& series,
                                                                  remaining_steps remaining) {
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  auto const step = find_lowest(world, remaining.empty() ? none : remaining.front()).value;
  throw_found_by_some(world, call, series.path(step),
                      std::find(remaining.begin(), remaining.end(), step) != remaining.end());
}

/// Lists the series again, into `steps`, and finds the newest saved run that all ranks have, as `next_common` does. A
/// rank that cannot list the series has no saved run. Does not call `agree`, so that the caller can rethrow an error
/// that all ranks have agreed on. Collective.
[[gnu::cold]] CONSTRAIN_INLINE common_run newest_again(communicator& world, saved_series const& series,
                                                       std::vector<std::int64_t>& steps, remaining_steps& remaining) {
  try {
    steps = series.steps();
  } catch (std::exception const&) { steps.clear(); }
  remaining = steps;
  return next_common(world, remaining);
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE bool load_newest(saved_series const& series, communicator& world, joint_call call,
                                                function_ref<void(std::string const&)> load, std::FILE* log) {
  std::vector<std::int64_t> steps;
  agreed(world, call, [&] { steps = series.steps(); });
  detail::remaining_steps remaining{steps};
  auto run = detail::next_common(world, remaining);
  if (run.step < 0 && run.is_exhausted) return false;
  if (run.step < 0) detail::throw_found_by_some(world, call, series, remaining);
  for (auto newest = run.step;;) {
    if (run.skipped >= 0 && log != nullptr)
      std::fprintf(log, "not every rank has '%s'; an older saved run is tried\n",
                   printable(series.path(run.skipped)).c_str());
    auto next = detail::next_common(world, remaining);
    try {
      load(series.path(run.step));
      return true;
    } catch (error const& e) {
      bool const is_last = next.step < 0;
      // After the listing, another process may have saved newer runs and removed these.
      if (is_last) next = detail::newest_again(world, series, steps, remaining);
      if (is_last && next.step <= newest) throw;
      newest = std::max(newest, next.step);
      if (log != nullptr)
        std::fprintf(log, "%s; %s saved run is tried\n", e.what(), is_last ? "a newer" : "the next older");
    }
    run = next;
  }
}

[[gnu::cold]] CONSTRAIN_INLINE bool resume_from(std::string const& directory, communicator& world,
                                                function_ref<void(std::string const&)> load, std::FILE* log) {
  if (load_newest(saved_series(directory), world, joint_call::resume, load, log)) return true;
  bool const has_run = detail::found_by_all(world, joint_call::resume, directory);
  if (has_run) load(directory);
  return has_run;
}

} // namespace constrain
