#pragma once

#include "constrain/op/quantized_update/quantized_update.hpp"
#include "constrain/policy/optimizer/adamw.hpp"
#include "constrain/policy/optimizer/is_optimizer.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::optimizer {

/// The default `tensors` of `quantized`: 8-bit states for all tensors with at least 4096 elements, except embeddings.
struct large_tensors {
  /// Whether a tensor of this role and number of elements has 8-bit states. `elements`: of one layer's tensor, over all
  /// ranks.
  static constexpr bool contain(role r, std::int64_t elements) { return r != role::embedding && elements >= 4096; }
};
/// For `quantized`: 8-bit states for all tensors, including embeddings and vectors.
struct everything {
  /// Always true.
  static constexpr bool contain(role, std::int64_t) { return true; }
};

/// An element-wise optimizer with 8-bit states (Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization"),
/// as in bitsandbytes: each field of the state has a byte per element and an fp32 scale per 256 elements
/// (op/quantized_update/quantized_update.hpp). `quantized<adamw>` stores 2 (1 + 4 / 256) bytes per weight. Embeddings
/// and tensors of fewer than 4096 elements keep the states of `O`; with `quantized<O, everything>`, these tensors have
/// 8-bit states too. `tensors` is a type with a function `contain`, as in `large_tensors`. Each layer of a stacked
/// parameter is a separate tensor. Refused: 8-bit states of a tensor that parallel::tensor divides.
template <class O, class tensors = large_tensors> struct quantized {
  static_assert(op::state_signed_fits<O>(),
                "optimizer::quantized<O>: `state_signed` and `state` of O have different lengths; give "
                "`state_signed` one value for each field of the state");
  static constexpr bool knows_tensors = requires(role r) { bool{tensors::contain(r, std::int64_t{})}; };
  static_assert(knows_tensors,
                "optimizer::quantized<O, tensors>: `tensors` has no `static constexpr bool contain(role, "
                "std::int64_t)`; write optimizer::large_tensors or optimizer::everything");
  static constexpr bool base_fits = has_state<O> && has_update<O> && !has_update_rule<O>; // false: compile-time error
  using base = O; // its name follows `name` in output and saved runs, as in "quantized<adamw>"
  /// The level of this wrapper in the order of nesting (`nesting_level`).
  using nests_at = constrain::detail::nesting<quantized, constrain::detail::nesting_level::by_role_or_quantized>;
  static constexpr char const* name = std::is_same_v<tensors, everything> ? "quantized_everything" : "quantized";

  using hyper = typename O::hyper;
  /// Throws the errors of the `check` of `O`, if `O` has one.
  static void check(hyper const& h) {
    if constexpr (requires { O::check(h); }) O::check(h);
  }

  /// Emits the update of one parameter.
  static constexpr void update(update_rule& u) {
    if constexpr (base_fits && knows_tensors) {
      if (op::state_fields<O>() > 0 && tensors::contain(u.role(), u.full_shape().elements()))
        op::update_quantized<O>(u);
      else op::update_by<O>(u);
    }
  }
};

template <class O, class tensors>
  requires(!constrain::detail::can_be_wrapped<O>)
struct quantized<O, tensors> : constrain::detail::wraps_no_optimizer {};

/// AdamW with 8-bit states.
using adamw_8bit = quantized<adamw>;

} // namespace constrain::optimizer
