#pragma once

#include "constrain/base/error.hpp"
#include "constrain/base/libm.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/op/adafactor/adafactor.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Checks the hyperparameters of one variant of Adafactor. Throws `error` if one is outside its range, or if, for
/// weights of value 1, the step size `a` or its product with the weight decay exceeds 1e19: the square of a new weight
/// could then be infinite in fp32. (Without a learning rate, checks a rate of 1, which is above every relative step
/// size.) `name`: the optimizer, for the error.
template <class hyper> void check_adafactor(char const* name, hyper const& h) {
  if constexpr (requires { h.learning_rate; })
    check_number(name, ".learning_rate", h.learning_rate, number_range::from_zero);
  if constexpr (requires { h.beta1; }) check_number(name, ".beta1", h.beta1, number_range::below_one);
  check_number(name, ".epsilon1", h.epsilon1, number_range::above_zero);
  check_number(name, ".epsilon2", h.epsilon2, number_range::from_zero);
  check_number(name, ".clip_threshold", h.clip_threshold, number_range::above_zero);
  if (!is_within(-h.decay_rate, number_range::from_zero))
    refuse_number(name, ".decay_rate", number_text(h.decay_rate), "a finite number of at most 0");
  check_number(name, ".weight_decay", h.weight_decay, number_range::from_zero);
  constexpr double maximum_change = 1e19; // in fp32, the square of a weight above 1.8e19 is infinite
  double rate = h.scale_parameter ? std::max<double>(h.epsilon2, 1) : 1;
  if constexpr (requires { h.learning_rate; }) rate *= h.learning_rate;
  if (rate > maximum_change || rate * h.weight_decay > maximum_change)
    throw error({name, ": updates with these hyperparameters can make a weight so large that its square is infinite in "
                       "fp32; give hyperparameters closer to the defaults"});
}

/// The hyperparameters of step t that the kernels read. `rate`: learning rate or relative step size.
template <class hyper> op::adafactor_step adafactor_step_of(hyper const& h, double rate, optimizer_step t) {
  double beta1 = 0;
  if constexpr (requires { h.beta1; }) beta1 = h.beta1;
  return {rate,
          beta1,
          1 - libm::pow(static_cast<double>(t.number), static_cast<double>(h.decay_rate)),
          h.epsilon1,
          h.epsilon2,
          h.clip_threshold,
          h.weight_decay,
          h.scale_parameter ? 1 : 0};
}

} // namespace detail

namespace optimizer {

// Each variant lists all its hyperparameters, because a designated initializer cannot name a member of a base class.

/// Adafactor (Shazeer & Stern 2018, algorithms 4 and 5) with a learning rate, like Hugging Face's
/// transformers.Adafactor(relative_step=False). The second moment of a matrix is factored: only one moving average per
/// row and one per column are stored. For a matrix w [rows, columns] and its gradient g at step t:
///
///     beta2 = 1 - t^decay_rate
///     row = beta2 row + (1 - beta2) (mean of g^2 over the columns + epsilon1)
///     column = beta2 column + (1 - beta2) (mean of g^2 over the rows + epsilon1)
///     u = g / sqrt(row column / mean(row))
///     a = learning_rate max(epsilon2, rms(w))        // without `scale_parameter`: learning_rate
///     w = (1 - a weight_decay) w - a u / max(1, rms(u) / clip_threshold)
///
/// rms is the root mean square over the tensor. A tensor with more than two dimensions is a stack of matrices: each
/// matrix has a separate `row` and `column`, but rms is taken over the stack. For biases, norms and other vectors, v =
/// beta2 v + (1 - beta2) (g^2 + epsilon1) is stored for each element, and u = g / sqrt(v). Each part of a parameter
/// (`in_parts`) is a separate tensor. In fp32, the state of a matrix takes 4 (rows + columns) bytes, and the state of a
/// vector 4 bytes per element. On a CUDA device, if a parameter has more than 65,535 matrices, the first step throws
/// `error`, because a kernel fails to launch. Refused: a parameter that parallel::tensor divides.
struct adafactor {
  static constexpr char const* name = "adafactor";

  /// Hyperparameters. The trainer's constructor throws `error` if one is out of range.
  struct hyper {
    float learning_rate = 1e-3f; // at least 0, before the schedule
    float epsilon1 = 1e-30f;     // added to the squared gradient, above 0
    float epsilon2 = 1e-3f;      // lower bound of rms(w), at least 0
    float clip_threshold = 1;    // upper bound of rms(u), above 0
    float decay_rate = -0.8f;    // exponent of t in beta2, at most 0
    float weight_decay = 0;      // at least 0; decoupled, and multiplied by `a`; biases and norms do not decay
    bool scale_parameter = true; // whether rms(w) multiplies the learning rate
  };
  /// Throws `error` if a hyperparameter is outside its range or not finite, or if together they allow too large an
  /// update (`check_adafactor`).
  static void check(hyper const& h) { detail::check_adafactor(name, h); }
  /// The hyperparameters of step t. t counts from 1.
  static op::adafactor_step prepare(hyper const& h, optimizer_step t) {
    return detail::adafactor_step_of(h, h.learning_rate, t);
  }
  /// Emits the update of one parameter.
  static constexpr void update(update_rule& u) { op::update_adafactor<adafactor, false>(u); }
};

/// `adafactor` with a relative step size instead of a learning rate, like Hugging Face's transformers.Adafactor with
/// its default relative_step=True. The relative step size takes the place of the learning rate in `a`, and depends only
/// on the step t: min(0.01, 1 / sqrt(t)), or min(1e-6 t, 1 / sqrt(t)) with `warmup_init`. A schedule and
/// `scale_learning_rate` have no effect.
struct adafactor_relative_step {
  static constexpr char const* name = "adafactor_relative_step";

  /// Hyperparameters, as in `adafactor`. The trainer's constructor throws `error` if one is out of range.
  struct hyper {
    float epsilon1 = 1e-30f;     // added to the squared gradient, above 0
    float epsilon2 = 1e-3f;      // lower bound of rms(w), at least 0
    float clip_threshold = 1;    // upper bound of rms(u), above 0
    float decay_rate = -0.8f;    // exponent of t in beta2, at most 0
    float weight_decay = 0;      // at least 0; decoupled, and multiplied by `a`; biases and norms do not decay
    bool scale_parameter = true; // whether rms(w) multiplies the relative step size
    bool warmup_init = false;    // whether the relative step size grows from 1e-6
  };
  /// Throws `error` if a hyperparameter is outside its range or not finite, or if together they allow too large an
  /// update (`check_adafactor`).
  static void check(hyper const& h) { detail::check_adafactor(name, h); }
  /// The hyperparameters of step t. t counts from 1.
  static op::adafactor_step prepare(hyper const& h, optimizer_step t) {
    auto const steps = static_cast<double>(t.number);
    return detail::adafactor_step_of(h, std::min(h.warmup_init ? 1e-6 * steps : 1e-2, 1 / detail::libm::sqrt(steps)),
                                     t);
  }
  /// Emits the update of one parameter, as in `adafactor`.
  static constexpr void update(update_rule& u) { op::update_adafactor<adafactor_relative_step, false>(u); }
};

/// `adafactor` with a first moment, like Hugging Face's transformers.Adafactor(relative_step=False, beta1=...). The
/// parameter moves along the moving average of its updates:
///
///     m = beta1 m + (1 - beta1) a u / max(1, rms(u) / clip_threshold)
///     w = (1 - a weight_decay) w - m
///
/// The state has one more value per element of the parameter: 4 bytes in fp32.
struct adafactor_with_momentum {
  static constexpr char const* name = "adafactor_with_momentum";

  /// Hyperparameters, as in `adafactor`. The trainer's constructor throws `error` if one is out of range.
  struct hyper {
    float learning_rate = 1e-3f; // at least 0, before the schedule
    float beta1 = 0.9f;          // decay rate of m, in [0, 1)
    float epsilon1 = 1e-30f;     // added to the squared gradient, above 0
    float epsilon2 = 1e-3f;      // lower bound of rms(w), at least 0
    float clip_threshold = 1;    // upper bound of rms(u), above 0
    float decay_rate = -0.8f;    // exponent of t in beta2, at most 0
    float weight_decay = 0;      // at least 0; decoupled, and multiplied by `a`; biases and norms do not decay
    bool scale_parameter = true; // whether rms(w) multiplies the learning rate
  };
  /// Throws `error` if a hyperparameter is outside its range or not finite, or if together they allow too large an
  /// update (`check_adafactor`).
  static void check(hyper const& h) { detail::check_adafactor(name, h); }
  /// The hyperparameters of step t. t counts from 1.
  static op::adafactor_step prepare(hyper const& h, optimizer_step t) {
    return detail::adafactor_step_of(h, h.learning_rate, t);
  }
  /// Emits the update of one parameter, as in `adafactor`.
  static constexpr void update(update_rule& u) { op::update_adafactor<adafactor_with_momentum, true>(u); }
};

} // namespace optimizer

} // namespace constrain
