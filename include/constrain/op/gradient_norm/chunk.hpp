#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Number of elements of a chunk of a gradient. For all policies and any number of ranks, the gradient norm is summed
/// tensor by tensor in chunks of this size. Each non-empty shard of a gradient begins at the start of a chunk, so that
/// sharding does not change the bits of the norm.
inline constexpr std::int64_t norm_chunk = 1024;

/// Number of chunks of a tensor of `elements` elements; the last chunk may be shorter.
CT_HOST_DEVICE constexpr std::int64_t norm_chunks(std::int64_t elements) {
  return (elements + norm_chunk - 1) / norm_chunk;
}

} // namespace constrain
