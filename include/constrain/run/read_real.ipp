#pragma once

#include "constrain/run/read_real.hpp"

#include "constrain/base/dtype.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE double read_real(arena const& memory, host_view const& from, std::int64_t i) {
  return visit_real(from.type, [&]<class stored>(stored x) {
    memory.read(from.offset + i * size_of(from.type), &x, sizeof x);
    return static_cast<double>(x);
  });
}

} // namespace constrain
