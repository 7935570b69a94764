#pragma once

#include "constrain/run/read_real.hpp"

#include "constrain/base/convert_reals.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE double read_real(std::byte const* memory, host_view const& view, std::int64_t i) {
  double x = 0;
  convert_reals(view.type, memory + view.offset + i * size_of(view.type), dtype::f64, reinterpret_cast<std::byte*>(&x),
                1);
  return x;
}

[[gnu::cold]] CONSTRAIN_INLINE double read_real(arena const& memory, host_view const& view, std::int64_t i) {
  std::byte stored[sizeof(double)];
  memory.read(view.offset + i * size_of(view.type), stored, size_of(view.type));
  return read_real(stored, {0, 1, view.type}, 0);
}

} // namespace constrain
