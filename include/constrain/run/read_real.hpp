#pragma once

#include "constrain/program/plan.hpp"
#include "constrain/run/arena.hpp"

#include <cstddef>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Element `i` of a value in the arena, converted to double from any floating-point dtype. Throws `error` if the
/// element is not in the arena, or if the device reports an error; `i` is not compared with `view.elements`.
double read_real(arena const& memory, host_view const& view, std::int64_t i);
/// Element `i`, converted to double, of a value in host memory that begins `view.offset` bytes after `memory`. Nothing
/// is checked.
double read_real(std::byte const* memory, host_view const& view, std::int64_t i);

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/run/read_real.ipp"
#endif
