#pragma once

#include "constrain/base/number_check.hpp"
#include "constrain/op/moving_average/moving_average.hpp"
#include "constrain/policy/optimizer/is_optimizer.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::optimizer {

/// Adds an exponential moving average of the weights to an optimizer (Polyak & Juditsky 1992; Tarvainen & Valpola
/// 2017), like torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn:
///
///     average = w                                after the first update
///     average = decay average + (1 - decay) w    after each later update
///
/// With `in_backward`, if the first update of a tensor is skipped because its gradient is not finite, the tensor's
/// average starts at the initial weights, and the second equation applies from the next update.
///
/// The trainer's `evaluate`, `predict` and `generate` read the average instead of the weights, and its
/// `state(parameter, "average")` returns a view of the average. A saved run contains both; ct::inference loads the
/// weights. The average is one more value per weight: 4 bytes in fp32. Refused with precision::pure_bf16.
template <class optimizer> struct averaged {
  using base = optimizer; // its name follows `name` in output and saved runs, as in "averaged<adamw>"
  /// The level of this wrapper in the order of nesting (`nesting_level`).
  using nests_at = constrain::detail::nesting<averaged, constrain::detail::nesting_level::averaged>;
  static constexpr char const* name = "averaged";

  /// Hyperparameters. The trainer's constructor throws `error` if one is out of range.
  struct hyper {
    typename optimizer::hyper base; // hyperparameters of the optimizer
    float decay = 0.999f;           // decay rate of the average, in [0, 1)
  };
  /// Throws the errors of the optimizer's `check`, and `error` if `decay` is outside its range.
  static void check(hyper const& h) {
    if constexpr (requires { optimizer::check(h.base); }) optimizer::check(h.base);
    check_number("averaged", ".decay", h.decay, number_range::below_one);
  }

  /// Emits the update of one parameter, then the update of its average.
  static constexpr void update(update_rule& u) {
    op::update_by<optimizer>(u);
    u.update_in_place<op::moving_average<averaged>>({u.parameter(), u.scale(), u.hyper()}, {u.average()});
  }
};

template <class O>
  requires(!constrain::detail::can_be_wrapped<O>)
struct averaged<O> : constrain::detail::wraps_no_optimizer {};

} // namespace constrain::optimizer
