#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/units.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/op/update/update_rule.hpp"
#include "constrain/program/op_label.hpp"

#include <cstdint>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Whether a `hyper` has a field `weight_decay`, or its field `base` has one, or the `base` of this field, and so on.
/// If not, weight decay applies to no parameter that an element-wise optimizer with this `hyper` updates.
template <class hyper> constexpr bool has_weight_decay() {
  if constexpr (requires(hyper h) { h.weight_decay; }) return true;
  else if constexpr (requires(hyper h) { h.base; }) return has_weight_decay<decltype(hyper::base)>();
  else return false;
}

/// The hyperparameters of the base optimizer, `optimizer::base`, which `optimizer` wraps; empty without a base.
template <class optimizer, class real> struct base_hyperparameters {
  /// Ignores its arguments: `optimizer` has no base optimizer.
  template <class hyper> base_hyperparameters(hyper const&, optimizer_step) {}
};

/// The hyperparameters that kernels read in one step: the result of the optimizer's `prepare` for this step, once with
/// and once without weight decay. The hyperparameters of the base optimizer come first, so that the kernels of the base
/// optimizer find them at the beginning of the same operand. `real`: the type in which the weights are updated.
template <class optimizer, class real> struct step_hyperparameters : base_hyperparameters<optimizer, real> {
  /// The result of the optimizer's `prepare` for step `step`, or `hyper` itself if the optimizer has no `prepare`.
  static auto prepare(typename optimizer::hyper const& hyper, optimizer_step step) {
    if constexpr (requires { optimizer::template prepare<real>(hyper, step); })
      return optimizer::template prepare<real>(hyper, step);
    else if constexpr (requires { optimizer::prepare(hyper, step); }) return optimizer::prepare(hyper, step);
    else return hyper;
  }
  using prepared = decltype(prepare(typename optimizer::hyper{}, optimizer_step{}));
  static_assert(std::is_trivially_copyable_v<prepared>,
                "an optimizer's hyperparameters are copied to the device as bytes; make `hyper` and the result of "
                "`prepare` trivially copyable");

  prepared decaying, other; // `decaying`: with weight decay; `other`: without it
  optimizer_step step;      // number of this update, counted from 1

  /// The hyperparameters of step `current_step`, from the optimizer's `hyper`.
  step_hyperparameters(typename optimizer::hyper hyper, optimizer_step current_step)
      : base_hyperparameters<optimizer, real>(hyper, current_step), decaying(prepare(hyper, current_step)),
        other(decaying), step(current_step) {
    // An element-wise optimizer may read the hyperparameters of its base from `hyper.base`; an update rule reads them
    // from the member `base`, which also holds them without weight decay.
    constexpr bool is_elementwise = !has_update_rule<optimizer> && requires {
      typename optimizer::template state<real>;
    };
    constexpr bool updates_with_base = is_elementwise && requires { hyper.base; };
    if constexpr (updates_with_base || requires { hyper.weight_decay; }) {
      remove_decay<updates_with_base>(hyper);
      other = prepare(hyper, current_step);
    }
  }

  /// The hyperparameters with weight decay if `with_decay`, otherwise without it.
  CT_HOST_DEVICE prepared const& choose(bool with_decay) const { return with_decay ? decaying : other; }

private:
  /// Sets the weight decay to 0; if `includes_base`, also in the hyperparameters of the base optimizer.
  template <bool includes_base, class hyperparameters> static void remove_decay(hyperparameters& hyper) {
    if constexpr (requires { hyper.weight_decay; }) hyper.weight_decay = 0;
    if constexpr (includes_base && requires { hyper.base; }) remove_decay<true>(hyper.base);
  }
};

/// The specialization for an `optimizer` with a base optimizer, its member type `base`. The hyperparameters of the base
/// optimizer are `hyper` itself if both optimizers have the same type `hyper`, otherwise `hyper.base`.
template <class optimizer, class real>
  requires requires { typename optimizer::base; }
struct base_hyperparameters<optimizer, real> {
  step_hyperparameters<typename optimizer::base, real> base; // hyperparameters of the base optimizer

  /// Takes the hyperparameters of the base optimizer from `hyper`, the hyperparameters of `optimizer`.
  base_hyperparameters(typename optimizer::hyper const& hyper, optimizer_step current_step)
      : base(hyper_of_base(hyper), current_step) {}

  /// The `hyper` of the base optimizer.
  static auto const& hyper_of_base(typename optimizer::hyper const& hyper) {
    if constexpr (std::is_same_v<typename optimizer::hyper, typename optimizer::base::hyper>) return hyper;
    else return hyper.base;
  }
};

/// Declared here for `make_hyper_layout`.
template <class optimizer> constexpr hyper_layout const* hyper_layout_of();

/// The value of `layout_of_hyper`.
template <class optimizer> constexpr hyper_layout make_hyper_layout() {
  using prepared = typename step_hyperparameters<optimizer, float>::prepared;
  auto const identity =
      constrain::detail::identity_of<typename optimizer::hyper>() * 31 + constrain::detail::identity_of<prepared>();
  if constexpr (requires { typename optimizer::base; }) {
    auto const* const base = hyper_layout_of<typename optimizer::base>();
    return {identity * 31 + base->identity, true, base};
  } else return {identity, false, nullptr};
}
/// The layout to which `hyper_layout_of` points.
template <class optimizer> inline constexpr hyper_layout layout_of_hyper = make_hyper_layout<optimizer>();

/// The layout of the optimizer's `step_hyperparameters`. Two optimizers have the same layout if they have the same
/// `hyper`, the same result type of `prepare`, and base optimizers with the same layout or none.
template <class optimizer> constexpr hyper_layout const* hyper_layout_of() { return &layout_of_hyper<optimizer>; }

/// The `step_hyperparameters` of `optimizer` in the operand `bytes`, as a reference into its memory. The operand holds
/// only these hyperparameters, or begins with them if an optimizer wraps `optimizer`. `real`: the type in which the
/// weights are updated.
template <class optimizer, class real>
step_hyperparameters<optimizer, real> const& hyperparameters_of(tensor<std::uint8_t const> bytes) {
  return *reinterpret_cast<step_hyperparameters<optimizer, real> const*>(bytes.data);
}

} // namespace constrain::op
