#pragma once

#include "constrain/op/update/update.hpp"
#include "constrain/policy/optimizer/is_optimizer.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether an optimizer updates each parameter in the backward pass, not after it.
template <class optimizer> concept updates_in_backward = requires { optimizer::updates_in_backward; };

namespace detail {

/// Whether an optimizer wraps an optimizer that updates in the backward pass.
template <class optimizer> constexpr bool has_in_backward_inside() {
  return !holds_inside<optimizer>([]<class each>(std::type_identity<each>) { return !updates_in_backward<each>; });
}

} // namespace detail

namespace optimizer {

/// Updates each parameter with `O` in the backward pass, as soon as the gradient is complete and no later node reads
/// the parameter (Lv et al. 2023, "Full Parameter Fine-tuning for Large Language Models with Limited Resources", LOMO),
/// like an optimizer step in a hook of PyTorch's `register_post_accumulate_grad_hook`. The next gradient reuses the
/// memory of this gradient, so all gradients together take about as many bytes as the largest gradient. If the norm of
/// all gradients is finite, the weights after a step are the same as with `O`, bit for bit, unless the rule of `O`
/// calls ops that draw random numbers.
///
/// The norm of all gradients is not known before the last gradient is complete. Therefore, if the norm of a tensor's
/// gradient is not finite, only this tensor's update is skipped: `step_result::not_finite` names the first parameter
/// with such a gradient, and `step_result::skipped` is false. If a tensor's first update is skipped, its average
/// (`averaged`) starts at the initial weights. `run_options::clip_norm` must be 0, and `trainer::gradient` throws
/// `error`. Refused at compile time: accumulate<N> with N > 1, precision::fp16, parallel::zero over more than one rank,
/// and `in_backward` inside another optimizer.
template <class O> struct in_backward {
  using base = O; // in output and saved runs, the name is "in_backward<...>" with the name of the base
  static constexpr char const* name = "in_backward";
  static constexpr bool updates_in_backward = true; // makes the concept `updates_in_backward` true

  using hyper = typename O::hyper;
  /// Throws the errors of the `check` of `O`, if `O` has one.
  static void check(hyper const& h) {
    if constexpr (requires { O::check(h); }) O::check(h);
  }
  /// Emits the update of one parameter.
  static constexpr void update(update_rule& u) { op::update_by<O>(u); }
};

template <class O>
  requires(!constrain::detail::can_be_wrapped<O>)
struct in_backward<O> : constrain::detail::wraps_no_optimizer {};

} // namespace optimizer

} // namespace constrain
