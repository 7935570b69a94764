#pragma once

#include "constrain/op/quantized_update/quantized_update.hpp"
#include "constrain/policy/optimizer/adamw.hpp"
#include "constrain/policy/optimizer/is_optimizer.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::optimizer {

/// An element-wise optimizer with states in 8 bits (Dettmers et al. 2022, "8-bit Optimizers via Block-wise
/// Quantization"), as in bitsandbytes: each field of the state has a byte per element and an fp32 scale per 256
/// elements (op/quantized_update/quantized_update.hpp). Embeddings and tensors of fewer than 4096 elements keep the
/// states of `O`. Each layer of a stack is a separate tensor. `quantized<adamw>` stores 2 (1 + 4 / 256) bytes per
/// weight.
template <class O> struct quantized {
  static_assert(op::has_sign_per_field<O>(),
                "optimizer::quantized<O>: `state_signed` and `state` of O have different lengths; give each field of "
                "the state one value");
  static constexpr bool base_fits = has_state<O> && has_update<O> && !has_update_rule<O>; // else a rule refuses it
  using base = O; // in prints and saved runs, the name is "quantized<...>" with the name of the base
  static constexpr char const* name = "quantized";
  static constexpr std::int64_t fewest_elements = 4096; // of a tensor with states in 8 bits

  using hyper = typename O::hyper;
  /// Throws `error` if a hyperparameter is outside its range.
  static void check(hyper const& h) {
    if constexpr (requires { O::check(h); }) O::check(h);
  }

  /// Emits the update of one parameter.
  static constexpr void update(update_rule& u) {
    if constexpr (base_fits) {
      bool const keeps_states = u.role() == role::embedding || u.shape().elements() < fewest_elements;
      if (keeps_states || op::state_fields<O>() == 0) op::update_by<O>(u);
      else op::update_quantized<O>(u);
    }
  }
};

/// AdamW with states in 8 bits.
using adamw_8bit = quantized<adamw>;

} // namespace constrain::optimizer
