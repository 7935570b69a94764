#pragma once

#include "constrain/policy/slot.hpp"
#include "constrain/program/dtype.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::precision {

/// Everything in 32-bit floating point: 4 bytes a weight, no separate master weights.
struct fp32 {
  using slot = slot_of::precision;
  static constexpr char const* name = "fp32";
  static constexpr dtype master = dtype::f32;  // of parameters, gradients and optimizer states
  static constexpr dtype compute = dtype::f32; // of what the products read, and of activations
};

/// Products and activations in bf16, with fp32 master weights, gradients, optimizer states, norms, softmax and sums
/// (Kalamkar et al. 2019). Its range is fp32's, so no loss scale is needed.
struct bf16 {
  using slot = slot_of::precision;
  static constexpr char const* name = "bf16";
  static constexpr dtype master = dtype::f32;
  static constexpr dtype compute = dtype::bf16;
};

/// Everything in 64-bit floating point: for verification.
struct fp64 {
  using slot = slot_of::precision;
  static constexpr char const* name = "fp64";
  static constexpr dtype master = dtype::f64;
  static constexpr dtype compute = dtype::f64;
};

} // namespace constrain::precision
