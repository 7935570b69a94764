#pragma once

#include "constrain/train/batch.hpp"

#include "constrain/base/error.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

CONSTRAIN_INLINE void check_length(char const* where, char const* what, std::span<std::int32_t const> values,
                                   std::int64_t length, char const* shape) {
  if (values.size() != static_cast<std::size_t>(length))
    throw error({where, ": ", what, " has ", values.size(), " elements, but ", length, " are needed (", shape,
                 "); pass an array of that length"});
}

CONSTRAIN_INLINE void check_batch(batch const& b, batch_lengths const& needed) {
  if (!b.ticket.valid())
    throw error(
        "step: the batch's arrays were reused, because batches(corpus) has advanced or ended since; step each batch "
        "before advancing, or copy its arrays and pass the copies to batch(inputs, labels)");
  if (b.inputs.size() != static_cast<std::size_t>(needed.inputs) ||
      b.labels.size() != static_cast<std::size_t>(needed.labels))
    throw error({"step: the batch has ", b.inputs.size(), " inputs and ", b.labels.size(),
                 " labels, but this trainer takes ", needed.inputs, " and ", needed.labels,
                 "; take it from this trainer's batches(corpus) or batch(inputs, labels)"});
  if (b.sequence != 0 && b.sequence != needed.sequence)
    throw error({"step: the batch has sequences of ", b.sequence, " tokens, but this trainer takes ", needed.sequence,
                 "; take it from this trainer's batches(corpus) or batch(inputs, labels)"});
}

} // namespace constrain::detail
