#pragma once

#include "constrain/train/saved/resume.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/io/directory_reader.hpp"
#include "constrain/train/ranks.hpp"

#include <cstdint>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Throws the error for a saved run that only some ranks find. The error names one rank that finds it and one that does
/// not. `here`: whether this rank finds it. Collective.
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

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE bool take_newest(saved_series const& series, communicator& world,
                                                function_ref<void(std::string const&)> load, std::FILE* log) {
  std::vector<std::int64_t> steps;
  agreed(world, joint_call::resume, [&] { steps = series.steps(); });
  auto here = steps.begin();
  auto const common = [&] { return find_lowest(world, here == steps.end() ? -1 : *here); };
  for (;;) {
    auto const [step, ranks] = common();
    if (step < 0 && ranks == world.size()) return false;
    if (step < 0)
      detail::throw_found_by_some(world, series.path(steps.empty() ? 0 : steps.front()), here != steps.end());
    auto const before = here;
    while (here != steps.end() && *here > step) ++here;
    if (here != before && log != nullptr)
      std::fprintf(log, "not every rank has '%s'; an older saved run is loaded\n", series.path(*before).c_str());
    // Ranks may have different saved runs: skip `step` unless all ranks have it.
    if (common().ranks < world.size()) continue;
    ++here;
    bool const last = common().value < 0;
    try {
      load(series.path(step));
      return true;
    } catch (error const& e) {
      if (last) throw;
      if (log != nullptr) std::fprintf(log, "%s; the next older saved run is loaded\n", e.what());
    }
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
