#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The gradient norm is summed in chunks of so many elements of one tensor (the last one shorter), whatever the
/// policies and the number of ranks. Shards begin at chunks, so that sharding changes no bit of the norm.
inline constexpr std::int64_t norm_chunk = 1024;

/// Number of chunks of a tensor.
CT_HOST_DEVICE constexpr std::int64_t norm_chunks(std::int64_t elements) {
  return (elements + norm_chunk - 1) / norm_chunk;
}

} // namespace constrain
