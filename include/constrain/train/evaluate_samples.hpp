#pragma once

#include "constrain/base/function_ref.hpp"
#include "constrain/train/results.hpp"
#include "constrain/train/sample_set.hpp"

#include <cstdint>
#include <optional>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Evaluates all samples in micro-batches of `rows` rows, and returns the sums over valid labels. `stop`: called before
/// each micro-batch; if it returns true, the result is nullopt. `run(batch, sum)`: evaluates a micro-batch and adds the
/// micro-batch's sums to `sum`; `batch.valid_labels` is 0, because nothing has counted the valid labels. If padding
/// could change results (not `sample_set::pads`), repeats of the last sample with a valid label (if none has one, of
/// the first) fill the rest of the last micro-batch; one more call to `run`, without a call to `stop`, finds the sums
/// of these repeats, which are subtracted. Throws as `sample_set::copy`, `stop` and `run` do.
std::optional<evaluation_sums> evaluate_samples(sample_set const& samples, std::int64_t rows, function_ref<bool()> stop,
                                                function_ref<void(batch const&, evaluation_sums&)> run);

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/evaluate_samples.ipp"
#endif
