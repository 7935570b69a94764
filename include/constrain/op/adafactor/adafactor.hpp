#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/op/update/update.hpp"

#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// The hyperparameters that the kernels of Adafactor read in one step. Every variant of Adafactor uses this struct.
struct adafactor_step {
  double rate;                  // learning rate, or relative step size
  double beta1;                 // coefficient of the first moment's average; 0 without a first moment
  double beta2;                 // coefficient of the second moment's average; in step t = 1, 2, ...: 1 - t^decay_rate
  double epsilon1;              // added to the squared gradient
  double epsilon2;              // lower bound of a parameter's root mean square; read only if scale_parameter is 1
  double clip_threshold;        // upper bound of an update's root mean square
  double weight_decay;          // decoupled
  std::int64_t scale_parameter; // 1: the root mean square of the parameter multiplies the rate; 0: it does not
};

/// The largest finite value of `real`, as a constant, because device code cannot call std::numeric_limits.
template <class real> inline constexpr real largest_average = std::numeric_limits<real>::max();

/// The new moving average of the squared gradient plus epsilon1, from the average before this step and the mean of the
/// squared gradient in this step; at most the largest finite value, because infinity would make the update NaN.
template <class real>
CT_HOST_DEVICE inline real average_of_squares(adafactor_step const& h, real old_average, double mean) {
  double const average = h.beta2 * static_cast<double>(old_average) + (1 - h.beta2) * (mean + h.epsilon1);
  return average < static_cast<double>(largest_average<real>) ? static_cast<real>(average) : largest_average<real>;
}

/// The square of a gradient, at most 2^126 in fp32 and 2^1022 in fp64: a moving average of such squares is finite.
template <class real> CT_HOST_DEVICE inline real limited_square(real gradient) {
  constexpr real limit = sizeof(real) == 4 ? real(0x1p63) : real(0x1p511);
  real const magnitude = gradient < 0 ? -gradient : gradient;
  real const limited = magnitude < limit ? magnitude : limit;
  return limited * limited;
}

/// Adafactor (Shazeer & Stern 2018, algorithm 4) for a parameter [..., rows, columns]: the second moment of each matrix
/// is factored into row and column averages. optimizer::adafactor has the formulas. Inputs: the gradient,
/// norm_and_scale [2] (op::clip_coefficient or op::tensor_scale), the `step_hyperparameters` of `optimizer` as bytes,
/// the parameter, the row averages [..., rows] and column averages [..., columns] (moving averages of the squared
/// gradient's mean over each row and each column, plus epsilon1), and the first moment, if there is one. Outputs: the
/// new parameter, the new row and column averages, scratch [..., columns], and the new first moment, if there is one.
/// op::assign stores all outputs except scratch, unless scale is 0.
template <class optimizer> struct adafactor_factored {
  using options = update_options;
  static constexpr char const* name = "adafactor_factored";
  static constexpr unsigned workspace = 0b1000;

  static constexpr inferred infer(operand_types const& in) {
    auto result = inferred::one(in[3].type, in[3].shape)
                      .and_also(in[4].type, in[4].shape)
                      .and_also(in[5].type, in[5].shape)
                      .and_also(in[5].type, in[5].shape);
    if (in.size() > 6) result = result.and_also(in[6].type, in[6].shape);
    return result;
  }
};

/// Adafactor (Shazeer & Stern 2018, algorithm 5) for a parameter with fewer than two dimensions: one second moment per
/// element. Inputs: the first three as for adafactor_factored, then the parameter, the second moment, and the first
/// moment, if there is one. Outputs, which op::assign stores unless scale is 0: the new parameter, the new second
/// moment, and the new first moment, if there is one.
template <class optimizer> struct adafactor_unfactored {
  using options = update_options;
  static constexpr char const* name = "adafactor_unfactored";

  static constexpr inferred infer(operand_types const& in) {
    auto result = inferred::one(in[3].type, in[3].shape).and_also(in[4].type, in[4].shape);
    if (in.size() > 5) result = result.and_also(in[5].type, in[5].shape);
    return result;
  }
};

namespace detail {

/// Appends the update of a parameter with at least two dimensions.
template <class optimizer, bool first_moment> constexpr void update_factored(update_rule& u) {
  auto const full = u.shape();
  auto const row_averages = u.state("exp_avg_sq_row", full.without(full.rank - 1));
  auto const column_averages = u.state("exp_avg_sq_col", full.without(full.rank - 2));
  using op = adafactor_factored<optimizer>;
  auto const store = [&](auto const& results) {
    u.assign(u.parameter(), results[0]);
    u.assign(row_averages, results[1]);
    u.assign(column_averages, results[2]);
  };
  if constexpr (first_moment) {
    auto const average = u.state("exp_avg");
    auto const results =
        emit_all<op>({u.gradient(), u.scale(), u.hyper(), u.parameter(), row_averages, column_averages, average},
                     {.decays = u.decays()});
    store(results);
    u.assign(average, results[4]);
  } else
    store(emit_all<op>({u.gradient(), u.scale(), u.hyper(), u.parameter(), row_averages, column_averages},
                       {.decays = u.decays()}));
}

/// Appends the update of a parameter with at most one dimension.
template <class optimizer, bool first_moment> constexpr void update_unfactored(update_rule& u) {
  auto const square_averages = u.state("exp_avg_sq");
  using op = adafactor_unfactored<optimizer>;
  auto const store = [&](auto const& results) {
    u.assign(u.parameter(), results[0]);
    u.assign(square_averages, results[1]);
  };
  if constexpr (first_moment) {
    auto const average = u.state("exp_avg");
    auto const results = emit_all<op>({u.gradient(), u.scale(), u.hyper(), u.parameter(), square_averages, average},
                                      {.decays = u.decays()});
    store(results);
    u.assign(average, results[2]);
  } else
    store(emit_all<op>({u.gradient(), u.scale(), u.hyper(), u.parameter(), square_averages}, {.decays = u.decays()}));
}

} // namespace detail

/// An optimizer's update rule: appends Adafactor's update of one parameter. `first_moment`: whether updates are
/// averaged over steps.
template <class optimizer, bool first_moment> constexpr void update_adafactor(update_rule& u) {
  if (u.shape().rank >= 2) detail::update_factored<optimizer, first_moment>(u);
  else detail::update_unfactored<optimizer, first_moment>(u);
}

} // namespace constrain::op
