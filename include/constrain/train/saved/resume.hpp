#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/comm/agreement.hpp"
#include "constrain/io/directory_reader.hpp"
#include "constrain/train/ranks.hpp"
#include "constrain/train/saved/saved_series.hpp"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Throws `error` on every rank: some ranks find a checkpoint and others do not. Names one rank of each kind.
[[noreturn, gnu::noinline, gnu::cold]] inline void throw_found_by_some(communicator& world,
                                                                       std::string const& directory, bool here) {
  auto const found_on = find_lowest(world, here ? world.rank() : world.size()).value;
  auto const missing_on = find_lowest(world, here ? world.size() : world.rank()).value;
  throw_agreed(concat({"resume: rank ", found_on, " finds a checkpoint in '", directory, "' and rank ", missing_on,
                       " does not find it; give all ranks a directory that all of them see"}));
}

/// Whether there is a checkpoint in a directory. Throws `error` on every rank if ranks differ. Collective.
inline bool found_by_all(communicator& world, std::string const& directory) {
  bool here = false;
  auto const found = agreed_sum(world, joint_call::resume,
                                [&]() -> std::int64_t { return here = io::directory_reader::finds(directory); });
  if (found != 0 && found != world.size()) throw_found_by_some(world, directory, here);
  return found > 0;
}

} // namespace detail

/// Calls `load(path)` with the newest checkpoint that all ranks have; if that throws, prints the error to `log` (null:
/// silent) and tries the next older one. `load` must throw on every rank or on none. Returns false if no rank has a
/// checkpoint. Throws the last error if none could be loaded, and an `error` if only some ranks have any. Collective.
[[gnu::noinline, gnu::cold]] inline bool take_newest(saved_series const& series, communicator& world,
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
      std::fprintf(log, "'%s' is not there for every rank; one before it is taken\n", series.path(*before).c_str());
    // Ranks may have different checkpoints: skip this one unless all ranks have it.
    if (common().ranks < world.size()) continue;
    ++here;
    bool const last = common().value < 0;
    try {
      load(series.path(step));
      return true;
    } catch (error const& e) {
      if (last) throw;
      if (log != nullptr) std::fprintf(log, "%s; the one before it is taken\n", e.what());
    }
  }
}

/// Loads the newest checkpoint of a series in a directory, or the one in the directory itself, the same on all ranks.
/// Returns false if there is none. Collective.
[[gnu::noinline, gnu::cold]] inline bool resume_from(std::string const& directory, communicator& world,
                                                     function_ref<void(std::string const&)> load, std::FILE* log) {
  if (take_newest(saved_series(directory), world, load, log)) return true;
  bool const there = detail::found_by_all(world, directory);
  if (there) load(directory);
  return there;
}

} // namespace constrain
