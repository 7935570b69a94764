#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Number of elements of a chunk. The gradient norm is summed tensor by tensor in such chunks, whatever the policies
/// and the number of ranks. Each shard begins where a chunk begins, so that sharding changes no bit of the norm.
inline constexpr std::int64_t norm_chunk = 1024;

/// Number of chunks of a tensor of `elements` elements; the last chunk may be shorter.
CT_HOST_DEVICE constexpr std::int64_t norm_chunks(std::int64_t elements) {
  return (elements + norm_chunk - 1) / norm_chunk;
}

} // namespace constrain
