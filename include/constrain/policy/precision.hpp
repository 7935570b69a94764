#pragma once

#include "constrain/policy/slot.hpp"
#include "constrain/program/dtype.hpp"

namespace constrain::precision {

/// Everything in 32-bit floating point: 4 bytes a weight, no separate master weights.
struct fp32 {
  using slot = slot_of::precision;
  static constexpr char const* name = "fp32";
  static constexpr dtype real = dtype::f32;
};

/// Everything in 64-bit floating point: for verification.
struct fp64 {
  using slot = slot_of::precision;
  static constexpr char const* name = "fp64";
  static constexpr dtype real = dtype::f64;
};

} // namespace constrain::precision
