#pragma once

#include "constrain/data/examples.hpp"
#include "constrain/train/intake.hpp"
#include "constrain/train/sample_set.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The samples of `examples`, whose arrays are matched to the ports of a task. `needed`: the requirements of an entry
/// program with labels, whose micro-batches have `sequences` sequences. Throws `error`, which begins with `caller`,
/// unless each port has an array of the right type, all arrays hold the same number of complete examples, and all
/// values are finite and in range. Also throws `error` if the arrays or this part of a split have no examples, if a
/// port's array for a micro-batch cannot be divided into `sequences` examples, if labels should be shifted but are not,
/// or if labels cannot be shifted or masked as requested. `remedy`: for an empty part of a split, the remedy that the
/// error suggests besides more examples.
[[gnu::cold]] sample_set samples_in(char const* caller, data::examples const& examples,
                                    detail::batch_needs const& needed, std::int64_t sequences, char const* remedy);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/example_samples.ipp"
#endif
