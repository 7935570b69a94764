#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// What a value is for. Roles decide which parameters decay, what a plan counts where, and what survives a step;
/// nothing in the library matches names.
enum class role : std::uint8_t {
  activation,
  input,           // tokens and labels, written by the host
  hyperparameters, // the optimizer's hyperparameters of this step, written by the host
  weight,
  bias,
  norm,
  embedding,
  head,
  frozen,       // a parameter that is not trained
  compute_copy, // a parameter in the type that GEMMs read
  gradient,
  state,         // an optimizer's
  result,        // read by the host after the run
  workspace,     // scratch of one kernel
  communication, // whole parameters and gradients on their way from and to shards, buffers
};

/// "weight", "gradient", ...
constexpr char const* name_of(role r) {
  constexpr char const* names[] = {"activation", "input",     "hyperparameters", "weight",       "bias",     "norm",
                                   "embedding",  "head",      "frozen",          "compute copy", "gradient", "state",
                                   "result",     "workspace", "communication"};
  return names[static_cast<int>(r)];
}

/// Whether it is a model's parameter, trained or frozen.
constexpr bool is_parameter(role r) {
  return r == role::weight || r == role::bias || r == role::norm || r == role::embedding || r == role::head ||
         r == role::frozen;
}

/// Whether it is a parameter that is trained.
constexpr bool is_trainable(role r) { return is_parameter(r) && r != role::frozen; }

/// Weight decay shrinks matrices and embeddings, not biases and norms (Loshchilov & Hutter 2019, usual practice).
constexpr bool decays(role r) { return r == role::weight || r == role::embedding || r == role::head; }

/// Persistent values keep their bytes from one run of an entry program to the next.
constexpr bool is_persistent(role r) { return is_parameter(r) || r == role::state || r == role::hyperparameters; }

} // namespace constrain
