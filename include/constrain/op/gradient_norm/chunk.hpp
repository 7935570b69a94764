#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The norm of the gradients is summed in chunks of so many elements of one tensor, the last one shorter, whatever the
/// policies and the number of ranks. Tensors are cut over ranks between chunks, so that cuts change no bit of it.
inline constexpr std::int64_t norm_chunk = 1024;

/// Chunks of a tensor of `elements` elements.
CT_HOST_DEVICE constexpr std::int64_t norm_chunks(std::int64_t elements) {
  return (elements + norm_chunk - 1) / norm_chunk;
}

} // namespace constrain
