#pragma once

#include "constrain/comm/agreement.hpp"
#include "constrain/train/saved/saved_series.hpp"

#include <cstdio>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Whether there is a checkpoint in a directory. Throws `error` on every rank if ranks differ. Collective.
bool found_by_all(communicator& world, std::string const& directory);

} // namespace detail

/// Calls `load(path)` with the newest checkpoint that all ranks have; if that throws, prints the error to `log` (null:
/// silent) and tries the next older one. `load` must throw on every rank or on none. Returns false if no rank has a
/// checkpoint. Throws the last error if none could be loaded, and an `error` if only some ranks have any. Collective.
[[gnu::cold]] bool take_newest(saved_series const& series, communicator& world,
                               function_ref<void(std::string const&)> load, std::FILE* log);

/// Loads the newest checkpoint of a series in a directory, or the one in the directory itself, the same on all ranks.
/// Returns false if there is none. Collective.
[[gnu::cold]] bool resume_from(std::string const& directory, communicator& world,
                               function_ref<void(std::string const&)> load, std::FILE* log);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/saved/resume.ipp"
#endif
