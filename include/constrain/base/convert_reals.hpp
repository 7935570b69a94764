#pragma once

#include "constrain/base/dtype.hpp"

#include <cstddef>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Converts `count` elements at `from`, of type `from_type`, to `to_type`, and writes them to `to`; does nothing if
/// `count` is not positive. Both types must be floating-point; this is not checked. Each element is first converted to
/// double, which is exact, and then rounded to `to_type`; for a 16-bit `to_type`, it is rounded twice, to float and
/// then to `to_type`. The arrays may be unaligned, but must not overlap.
void convert_reals(dtype from_type, std::byte const* from, dtype to_type, std::byte* to, std::int64_t count);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/base/convert_reals.ipp"
#endif
