#pragma once

#include "constrain/train/saved/resume.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/io/directory_reader.hpp"
#include "constrain/train/ranks.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Throws the error for a saved run that only some ranks find. The error names one rank that finds the run and one that
/// does not. `here`: whether this rank finds the run. Collective.
[[noreturn, gnu::cold]] CONSTRAIN_INLINE void throw_found_by_some(communicator& world, std::string const& directory,
                                                                  bool here) {
  auto const found_on = find_lowest(world, here ? world.rank() : world.size()).value;
  auto const missing_on = find_lowest(world, here ? world.size() : world.rank()).value;
  throw_agreed(concat({"resume: rank ", found_on, " finds a saved run in '", directory, "', but rank ", missing_on,
                       " does not; give all ranks a directory that they share"}));
}

[[gnu::cold]] CONSTRAIN_INLINE bool found_by_all(communicator& world, std::string const& directory) {
  bool here = false;
  auto const found = agreed_sum(world, joint_call::resume,
                                [&]() -> std::int64_t { return here = io::directory_reader::finds(directory); });
  if (found != 0 && found != world.size()) throw_found_by_some(world, directory, here);
  return found > 0;
}

using steps_left = std::span<std::int64_t const>; // this rank's saved steps that have not been tried, newest first

/// A saved run that all ranks have.
struct common_run {
  std::int64_t step = -1;   // -1: no such run
  std::int64_t passed = -1; // this rank's newest step that is passed over because another rank lacks it; -1: none
  bool none_left = false;   // whether no rank had a saved run left
};

/// Finds the newest saved run that all ranks have in `left`. Removes this run and all newer runs from `left`.
/// Collective.
[[gnu::cold]] CONSTRAIN_INLINE common_run take_common(communicator& world, steps_left& left) {
  common_run run;
  for (;;) {
    auto const [step, ranks] = find_lowest(world, left.empty() ? -1 : left.front());
    bool const is_common = ranks == world.size();
    run.none_left = step < 0 && is_common;
    if (step < 0) return run;
    if (is_common) {
      left = left.subspan(1);
      run.step = step;
      return run;
    }
    if (run.passed < 0 && left.front() > step) run.passed = left.front();
    while (!left.empty() && left.front() > step) left = left.subspan(1);
  }
}

/// Throws the error for a series without a saved run that all ranks have. The error names the lowest of the ranks'
/// newest steps in `left`. At least one rank has no step left, and so lacks this step. Collective.
[[noreturn, gnu::cold]] CONSTRAIN_INLINE void throw_found_by_some(communicator& world, saved_series const& series,
                                                                  steps_left left) {
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  auto const step = find_lowest(world, left.empty() ? none : left.front()).value;
  throw_found_by_some(world, series.path(step), std::find(left.begin(), left.end(), step) != left.end());
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE bool take_newest(saved_series const& series, communicator& world,
                                                function_ref<void(std::string const&)> load, std::FILE* log) {
  std::vector<std::int64_t> steps;
  agreed(world, joint_call::resume, [&] { steps = series.steps(); });
  detail::steps_left left{steps};
  auto run = detail::take_common(world, left);
  if (run.step < 0 && run.none_left) return false;
  if (run.step < 0) detail::throw_found_by_some(world, series, left);
  for (;;) {
    if (run.passed >= 0 && log != nullptr)
      std::fprintf(log, "not every rank has '%s'; an older saved run is loaded\n", series.path(run.passed).c_str());
    auto const next = detail::take_common(world, left);
    try {
      load(series.path(run.step));
      return true;
    } catch (error const& e) {
      if (next.step < 0) throw;
      if (log != nullptr) std::fprintf(log, "%s; the next older saved run is loaded\n", e.what());
    }
    run = next;
  }
}

[[gnu::cold]] CONSTRAIN_INLINE bool resume_from(std::string const& directory, communicator& world,
                                                function_ref<void(std::string const&)> load, std::FILE* log) {
  if (take_newest(saved_series(directory), world, load, log)) return true;
  bool const there = detail::found_by_all(world, directory);
  if (there) load(directory);
  return there;
}

} // namespace constrain
