#pragma once

#include "constrain/program/plan.hpp"

#include <cstddef>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Bytes that the first `count` elements of a result occupy in `pending_results`: a multiple of 8, so that every result
/// is aligned.
constexpr std::int64_t padded_bytes(host_view const& result, std::int64_t count) {
  return (count * size_of(result.type) + 7) / 8 * 8;
}

/// The results of a run that a device may not have finished: copies in host memory, one result after another, each
/// padded to `padded_bytes` bytes.
class pending_results {
public:
  virtual ~pending_results() = default;
  /// Waits until the run and the copies of its results are complete. Returns the first byte of the copies, valid until
  /// a later run reuses their buffer (`cuda_staging_buffers::end`). Throws `error` if the device reports an error.
  virtual std::byte const* wait() = 0;
};

} // namespace constrain
