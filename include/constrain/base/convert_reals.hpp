#pragma once

#include "constrain/base/dtype.hpp"

#include <cstddef>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Converts `count` elements at `from`, of the floating-point type `from_type`, to `to_type`, and writes them to `to`.
/// Each element is first converted to double, which is exact. If `to_type` has 16 bits, the double is then rounded to
/// float and the float to `to_type`. The arrays may be unaligned, but must not overlap.
void convert_reals(dtype from_type, std::byte const* from, dtype to_type, std::byte* to, std::int64_t count);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/base/convert_reals.ipp"
#endif
