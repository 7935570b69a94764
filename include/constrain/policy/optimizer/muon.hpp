#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/base/units.hpp"
#include "constrain/device/math.hpp"
#include "constrain/op/muon/muon.hpp"
#include "constrain/op/update/update.hpp"
#include "constrain/policy/optimizer/adamw.hpp"
#include "constrain/policy/optimizer/is_optimizer.hpp"
#include "constrain/program/extents.hpp"

#include <cstdint>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The characters of "muon_steps_<steps>", for `steps` from 1 to 99.
template <int steps> struct muon_name_with_steps {
  char text[14] = "muon_steps_";
  constexpr muon_name_with_steps() {
    constexpr int digits = steps < 10 ? 1 : 2;
    if (digits == 2) text[11] = static_cast<char>('0' + steps / 10 % 10);
    text[10 + digits] = static_cast<char>('0' + steps % 10);
  }
};
template <int steps> inline constexpr muon_name_with_steps<steps> muon_name_text;

/// The name of optimizer::muon with this number of steps: "muon" for 5, the default.
template <int steps> inline constexpr char const* muon_name = steps == 5 ? "muon" : muon_name_text<steps>.text;

} // namespace detail

namespace optimizer {

/// Muon's learning-rate factor for a matrix [rows, columns].
enum class muon_rate : std::uint8_t {
  original,           // sqrt(max(1, rows / columns)) (Jordan et al. 2024)
  match_rms_adamw,    // 0.2 sqrt(max(rows, columns)), for learning rates that suit AdamW (Liu et al. 2025)
  spectral_unclamped, // sqrt(rows / columns) (Bernstein 2025)
};

/// Muon (Jordan et al. 2024), like torch.optim.Muon, but computed in fp32 (with precision::fp64, in fp64) instead of
/// bfloat16, and with a different default weight decay:
///
///     m = m + (1 - momentum) (g - m)
///     X = g + momentum (m - g), or m if nesterov is false
///     X = X / max(|X|, epsilon)                               |X|: Frobenius norm
///     X = a X + b A X + c A A X with A = X X^T                newton_schulz_steps times
///     w = (1 - lr weight_decay) w - lr rate(rows, columns) X
///
/// `muon` updates the matrices of role weight; `O` updates all other parameters, such as embeddings, the head, biases
/// and norms. Each layer of a stack is a separate matrix, and so is each part of a parameter (`in_parts`). The state of
/// a matrix is one value per weight: 4 bytes in fp32. `steps`: newton_schulz_steps, from 1 to 99; every step launches
/// kernels, so the number is part of the type. Unless it is 5, the number is also in the name: a saved run resumes only
/// with the same number. Refused: a matrix that parallel::tensor divides.
template <class O = adamw, int steps = 5> struct muon {
  using base = O; // in output and saved runs, its name follows `name`: "muon<adamw>", "muon_steps_7<adamw>"
  /// The level of this wrapper in the order of nesting (`nesting_level`).
  using nests_at = constrain::detail::nesting<muon, constrain::detail::nesting_level::muon>;
  static constexpr char const* name = constrain::detail::muon_name<steps>;
  static constexpr int newton_schulz_steps = steps; // number of Newton-Schulz steps

  /// Hyperparameters. The trainer's constructor throws `error` if one is out of range.
  struct hyper {
    float learning_rate = 1e-3f;                 // at least 0, before the schedule and the factor of `rate`
    float momentum = 0.95f;                      // decay rate of m, in [0, 1)
    float weight_decay = 0;                      // at least 0; decoupled, and multiplied by the learning rate
    float epsilon = 1e-7f;                       // lower bound of |X|, above 0
    float a = 3.4445f, b = -4.775f, c = 2.0315f; // coefficients of the Newton-Schulz iteration, finite
    bool nesterov = true;                        // whether X starts as a weighted mean of g and m
    muon_rate rate = muon_rate::original;        // the learning-rate factor for a matrix
    typename O::hyper base{};                    // hyperparameters of `O`
  };
  /// Throws `error` if a hyperparameter is outside its range or not finite, if an update could change a weight of value
  /// 1 by more than 1e19, or if the Newton-Schulz steps turn a singular value of 0.001, 0.002, ..., 1 into a number
  /// whose square is not finite in fp32. Also throws the errors of the `check` of `O`.
  static void check(hyper const& h) {
    check_number(name, ".learning_rate", h.learning_rate, number_range::from_zero);
    check_number(name, ".momentum", h.momentum, number_range::below_one);
    check_number(name, ".weight_decay", h.weight_decay, number_range::from_zero);
    check_number(name, ".epsilon", h.epsilon, number_range::above_zero);
    check_number(name, ".a", h.a, number_range::finite);
    check_number(name, ".b", h.b, number_range::finite);
    check_number(name, ".c", h.c, number_range::finite);
    // As in `check_adafactor`. The factor of `rate` is at most the square root of the number of elements, and does not
    // multiply the weight decay.
    double const largest_rate = h.learning_rate * math::sqrt(static_cast<double>(maximum_elements));
    if (largest_rate > 1e19 || h.learning_rate * double(h.weight_decay) > 1e19)
      throw error({name, ": one update with these hyperparameters can change a weight of value 1 by more than 1e19; "
                         "give hyperparameters closer to the defaults"});
    // The iteration maps each singular value x of X, which is at most 1 at first, to a x + b x^3 + c x^5. This
    // polynomial can be large between two values of x at which it is small, so the loop tries many values.
    for (int thousandths = 1000; thousandths > 0; --thousandths) {
      float const singular_value = static_cast<float>(thousandths) / 1000;
      float x = singular_value;
      for (int step = 0; step < steps; ++step) x = x * (h.a + x * x * (h.b + x * x * h.c));
      if (!detail::is_finite(static_cast<double>(x * x)))
        throw error({name, ": a singular value of ", detail::number_text(thousandths / 1000.0), " becomes ",
                     detail::number_text(x), " after ", counted(steps, "Newton-Schulz step"),
                     " with these .a, .b and .c; give coefficients closer to the defaults"});
    }
    if (h.rate > muon_rate::spectral_unclamped)
      detail::refuse_number(name, ".rate", concat({static_cast<int>(h.rate)}),
                            "muon_rate::original, match_rms_adamw or spectral_unclamped");
    if constexpr (requires { O::check(h.base); }) O::check(h.base);
  }

  /// Hyperparameters of one step.
  template <class real> struct prepared {
    real a, b, c, share, keep; // share = 1 - momentum, keep = 1 - lr weight_decay
    double epsilon, rate;      // rate: the learning rate before the factor
    bool nesterov;             // the same as in `hyper`
    muon_rate factor;          // `rate` of `hyper`

    /// The learning rate of a matrix [rows, columns].
    CT_HOST_DEVICE double learning_rate(std::int64_t matrix_rows, std::int64_t matrix_columns) const {
      auto const rows = static_cast<double>(matrix_rows), columns = static_cast<double>(matrix_columns);
      double const larger = rows > columns ? rows : columns;
      if (factor == muon_rate::match_rms_adamw) return rate * 0.2 * math::sqrt(larger);
      return rate * math::sqrt((factor == muon_rate::original ? larger : rows) / columns);
    }
  };

  /// The hyperparameters of a step, computed in double on the host.
  template <class real> static prepared<real> prepare(hyper const& h, optimizer_step) {
    double const rate = h.learning_rate;
    return {real(h.a),
            real(h.b),
            real(h.c),
            static_cast<real>(1 - static_cast<double>(h.momentum)),
            static_cast<real>(1 - rate * static_cast<double>(h.weight_decay)),
            h.epsilon,
            rate,
            h.nesterov,
            h.rate};
  }

  /// Emits the update of one parameter.
  static constexpr void update(update_rule& u) {
    if (u.role() != role::weight || u.shape().rank != 2) return op::update_by<O>(u);
    u.for_each_part([](update_rule& part) {
      auto const momentum = part.state("momentum_buffer");
      auto const next = emit_all<op::muon<muon>>(
          {part.gradient(), part.scale(), part.hyper(), part.parameter(), momentum}, {.decays = part.decays()});
      part.assign(part.parameter(), next[0]);
      part.assign(momentum, next[1]);
    });
  }
};

template <class O, int steps>
  requires(!constrain::detail::can_be_wrapped<O>)
struct muon<O, steps> : constrain::detail::wraps_no_optimizer {};

} // namespace optimizer

} // namespace constrain
