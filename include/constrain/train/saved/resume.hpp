#pragma once

#include "constrain/comm/agreement.hpp"
#include "constrain/train/saved/saved_series.hpp"

#include <cstdio>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Whether a directory has a saved run, intact or damaged (`directory_reader::finds`). Throws `error` on every rank if
/// only some ranks find one, or if `finds` throws on any rank. `call`: the library call, for the error. Collective.
bool found_by_all(communicator& world, joint_call call, std::string const& directory);

} // namespace detail

/// Calls `load(path)` for the series' newest saved run that all ranks have. `call`: the library call, for errors. If
/// `load` throws an `error`, prints the error to `log` (null: silent) and tries the next older saved run. After the
/// oldest, lists the series again, and starts over if all ranks now have a saved run that is newer than those tried:
/// another process may save to the series and remove old runs meanwhile. Also prints to `log` if this rank has a newer
/// saved run that another rank lacks. `load` must throw on every rank or on none. Returns false if no rank has a saved
/// run. Throws the last error if no saved run could be loaded, or an `error` on every rank if some ranks have saved
/// runs but no saved run is on all ranks, or if a rank cannot list the directory. Collective.
[[gnu::cold]] bool load_newest(saved_series const& series, communicator& world, joint_call call,
                               function_ref<void(std::string const&)> load, std::FILE* log);

/// Loads the newest saved run of the series in a directory, as `load_newest` does. If no rank has a run of the series,
/// loads the saved run in the directory itself. Returns false if no saved run exists. Throws as `load_newest`, `load`
/// and `detail::found_by_all` do. Collective.
[[gnu::cold]] bool resume_from(std::string const& directory, communicator& world,
                               function_ref<void(std::string const&)> load, std::FILE* log);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/saved/resume.ipp"
#endif
