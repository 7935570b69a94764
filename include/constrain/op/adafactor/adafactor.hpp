#pragma once

#include "constrain/op/update/update.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// What the kernels of Adafactor read of the hyperparameters of one step, the same for all its variants.
struct adafactor_step {
  double rate;                  // learning rate, or relative step size
  double beta1;                 // factor of the first moment; 0 without one
  double beta2;                 // factor of the second moment: 1 - t^decay_rate
  double epsilon1, epsilon2;    // added to the squared gradient; least root mean square of a parameter
  double clip_threshold;        // largest root mean square of an update
  double weight_decay;          // decoupled
  std::int64_t scale_parameter; // whether the root mean square of the parameter multiplies the rate
};

/// Adafactor (Shazeer & Stern 2018, algorithm 4) of a parameter [..., rows, columns], each matrix of which has its
/// factored second moment. Inputs: gradient, clip [norm, scale], the bytes of the `step_hyperparameters` of
/// `optimizer`; then the parameter, the moving averages of the squared gradient's means over each row [..., rows] and
/// over each column [..., columns], and the first moment, if there is one. Outputs: the new parameter, the new row and
/// column averages, scratch, and the new first moment.
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

/// The same for a parameter that is no matrix, with one second moment per element. Inputs: gradient, clip, bytes,
/// parameter, second moment, and the first moment, if there is one. Outputs: their new values.
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
  auto const rows = u.state("exp_avg_sq_row", full.without(full.rank - 1));
  auto const columns = u.state("exp_avg_sq_col", full.without(full.rank - 2));
  using op = adafactor_factored<optimizer>;
  auto const store = [&](auto const& next) {
    u.assign(u.parameter(), next[0]);
    u.assign(rows, next[1]);
    u.assign(columns, next[2]);
  };
  if constexpr (first_moment) {
    auto const average = u.state("exp_avg");
    auto const next = emit_all<op>({u.gradient(), u.scale(), u.hyper(), u.parameter(), rows, columns, average},
                                   {.decays = u.decays()});
    store(next);
    u.assign(average, next[4]);
  } else
    store(emit_all<op>({u.gradient(), u.scale(), u.hyper(), u.parameter(), rows, columns}, {.decays = u.decays()}));
}

/// Appends the update of a parameter with at most one dimension.
template <class optimizer, bool first_moment> constexpr void update_unfactored(update_rule& u) {
  auto const squares = u.state("exp_avg_sq");
  using op = adafactor_unfactored<optimizer>;
  auto const store = [&](auto const& next) {
    u.assign(u.parameter(), next[0]);
    u.assign(squares, next[1]);
  };
  if constexpr (first_moment) {
    auto const average = u.state("exp_avg");
    auto const next =
        emit_all<op>({u.gradient(), u.scale(), u.hyper(), u.parameter(), squares, average}, {.decays = u.decays()});
    store(next);
    u.assign(average, next[2]);
  } else store(emit_all<op>({u.gradient(), u.scale(), u.hyper(), u.parameter(), squares}, {.decays = u.decays()}));
}

} // namespace detail

/// Appends Adafactor's update of one parameter, for a rule. `first_moment`: whether updates are averaged over steps.
template <class optimizer, bool first_moment> constexpr void update_adafactor(update_rule& u) {
  if (u.shape().rank >= 2) detail::update_factored<optimizer, first_moment>(u);
  else detail::update_unfactored<optimizer, first_moment>(u);
}

} // namespace constrain::op
