#pragma once

#include "constrain/data/examples.hpp"
#include "constrain/train/intake.hpp"
#include "constrain/train/sample_set.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The samples of examples, cut along the ports of a task. `needed`: of a micro-batch with labels, of `sequences`
/// sequences. Throws `error`, which begins with `where`, unless there is an array of the right type for each port, all
/// arrays hold the same number of complete examples, at least one of which is in the part, and all values are in range;
/// and for labels that should be shifted and are not. `instead`: what to do, besides giving more examples, if the part
/// is empty.
[[gnu::cold]] sample_set samples_in(char const* where, data::examples const& examples,
                                    detail::batch_needs const& needed, std::int64_t sequences, char const* instead);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/example_samples.ipp"
#endif
