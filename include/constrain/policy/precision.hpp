#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/policy/rule.hpp"

/// The types in which tensors are stored and computed.
namespace constrain::inline CONSTRAIN_VARIANT::precision {

struct fp32;
struct tf32;
struct bf16;
struct fp16;
struct pure_bf16;
struct fp64;

} // namespace constrain::precision

namespace constrain::inline CONSTRAIN_VARIANT::slot_of {

/// The slot of precision; is_slot.hpp explains the members of a slot.
struct precision {
  dtype master = dtype::f32;  // of parameters, gradients and, unless the optimizer chooses a type, optimizer states
  dtype compute = dtype::f32; // of activations and of the operands of GEMMs
  bool masters = true;        // false: parameters of two or more dimensions are stored only in `compute`
  bool tf32 = false;          // whether the GEMMs of layers round their fp32 operands to TF32
  bool loss_scale = false;    // whether the loss is scaled, so that small gradients do not underflow
  friend constexpr bool operator==(precision const&, precision const&) = default;

  template <class...> using otherwise = constrain::precision::fp32;
  template <class policy> struct named { using precision = policy; };
  using examples = policy_list<constrain::precision::fp32, constrain::precision::tf32, constrain::precision::bf16,
                               constrain::precision::fp16, constrain::precision::pure_bf16, constrain::precision::fp64>;
  static constexpr bool always_named = true;
  static constexpr bool free_on_resume = true; // but a saved run has a field for the precision, which must match

  CONSTRAIN_RULE(one_precision, (said<precision> const& p), p.given <= 1,
                 "policies: more than one precision is given; keep one, for example precision::fp32");
  using rules = rule_list<one_precision>;
};

} // namespace constrain::slot_of

namespace constrain::inline CONSTRAIN_VARIANT::precision {

/// Parameters, gradients, optimizer states and activations in 32-bit floating point, without master weights. In every
/// precision, the library's losses and the gradient norm are summed in fp64, and an optimizer may choose another type
/// for its states.
struct fp32 {
  using slot = slot_of::precision;
  static constexpr char const* name = "fp32";
  static constexpr slot value{.master = dtype::f32, .compute = dtype::f32};
};

/// fp32 in memory; the GEMMs of layers (`linear` and its gradients) round their operands to TF32, with 10 bits of
/// fraction instead of 23, and add in fp32 (NVIDIA 2020, "NVIDIA A100 Tensor Core GPU Architecture"). On a CUDA device,
/// cuBLASLt uses tensor cores for these GEMMs. On the CPU, a step is slower than with fp32, but shows the effect of the
/// rounding on the loss. The GEMMs of attention and of Muon stay in fp32.
struct tf32 {
  using slot = slot_of::precision;
  static constexpr char const* name = "tf32";
  static constexpr slot value{.master = dtype::f32, .compute = dtype::f32, .tf32 = true};
};

/// Mixed precision: bf16 for GEMMs and activations, and fp32 for master weights, their gradients, optimizer states, and
/// the arithmetic of normalizations, softmax and sums (Kalamkar et al. 2019). bf16 has the exponent range of fp32, so
/// no loss scaling is needed.
struct bf16 {
  using slot = slot_of::precision;
  static constexpr char const* name = "bf16";
  static constexpr slot value{.master = dtype::f32, .compute = dtype::bf16};
};

/// Mixed precision with fp16 in place of bf16 (Micikevicius et al. 2018): 11 bits of precision instead of 8, but the
/// largest value is 65504, and values below 6e-5 lose precision. Gradients below 3e-8 would become 0, so the loss is
/// multiplied by a dynamic scale before the backward pass: see `run_options::loss_scale`.
struct fp16 {
  using slot = slot_of::precision;
  static constexpr char const* name = "fp16";
  static constexpr slot value{.master = dtype::f32, .compute = dtype::f16, .loss_scale = true};
};

/// Like `bf16`, but without master weights: parameters of two or more dimensions are stored in bf16, 2 bytes per
/// element. Biases, norms and gradients are in fp32. The update computes in fp32, on an fp32 copy of one tensor at a
/// time. An updated weight is rounded stochastically (op/narrow_weight/narrow_weight.hpp), because rounding to nearest
/// would lose updates of less than 1/512 of the weight. With optimizer::states_in, the weight is rounded to nearest
/// instead, and a state "compensation" keeps the rounding error (like torchdistx's AnyPrecisionAdamW).
struct pure_bf16 {
  using slot = slot_of::precision;
  static constexpr char const* name = "pure_bf16";
  static constexpr slot value{.master = dtype::f32, .compute = dtype::bf16, .masters = false};
};

/// Everything in 64-bit floating point, to verify gradients numerically.
struct fp64 {
  using slot = slot_of::precision;
  static constexpr char const* name = "fp64";
  static constexpr slot value{.master = dtype::f64, .compute = dtype::f64};
};

} // namespace constrain::precision
