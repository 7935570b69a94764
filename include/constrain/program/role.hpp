#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The purpose of a value. Roles decide which parameters are trained, which parameters have weight decay, how
/// optimizers such as optimizer::muon and optimizer::by_role update a parameter, which field of a `memory_plan` counts
/// a value's memory, and which values persist between steps. The library never infers a role from a name.
enum class role : std::uint8_t {
  activation,      // computed from inputs and parameters
  input,           // inputs, labels and the inverse label count, written by the host
  hyperparameters, // the optimizer's hyperparameters of this step, written by the host
  weight,          // a trained matrix, or a trained parameter that no other role fits
  bias,            // a trained vector that a layer adds
  norm,            // scale and shift of a normalization
  embedding,       // a table whose rows are looked up
  head,            // the matrix of the linear layer that computes the logits
  frozen,          // a parameter that is not trained
  compute_copy,    // a parameter, cast in every run to the type that GEMMs read
  kept_copy,       // a compute copy that keeps its bytes between runs; the update writes it (pass/keep_copies.hpp)
  gradient,        // of a parameter
  state,           // of the optimizer
  setting,         // a scalar that the host can change between runs
  result,          // read by the host after the run
  workspace,       // scratch of one kernel, a temporary copy of an operand or a parameter, or a rounding error
  communication,   // temporary full tensors of sharded values, temporary shards, and buffers of collectives
};

/// The name of `r` in printed text, such as the list of parameters that `explain` prints.
constexpr char const* name_of(role r) {
  constexpr char const* names[] = {
      "activation", "input",   "hyperparameters", "weight",       "bias",         "norm",
      "embedding",  "head",    "frozen",          "compute copy", "compute copy", "gradient",
      "state",      "setting", "result",          "workspace",    "communication"};
  return names[static_cast<int>(r)];
}

/// Whether `r` is the role of a parameter, trained or frozen.
constexpr bool is_parameter(role r) {
  return r == role::weight || r == role::bias || r == role::norm || r == role::embedding || r == role::head ||
         r == role::frozen;
}

/// Whether `r` is the role of a parameter that training changes.
constexpr bool is_trainable(role r) { return is_parameter(r) && r != role::frozen; }

/// Whether weight decay applies by default to parameters of role `r`. Biases and norms do not decay, as is common with
/// AdamW (Loshchilov & Hutter 2019).
constexpr bool decays(role r) { return r == role::weight || r == role::embedding || r == role::head; }

/// Whether `r` is the role of a parameter's copy in the compute type.
constexpr bool is_compute_copy(role r) { return r == role::compute_copy || r == role::kept_copy; }

/// Whether a value of role `r` keeps its bytes from one run of an entry program (step, evaluate, ...) to the next.
constexpr bool is_persistent(role r) {
  return is_parameter(r) || r == role::kept_copy || r == role::state || r == role::setting ||
         r == role::hyperparameters;
}

/// Whether memory planning leaves no gaps between the instances of a value of role `r`, so that one call can work on
/// all of them.
constexpr bool is_dense(role r) {
  return is_persistent(r) || r == role::gradient || r == role::input || r == role::compute_copy;
}

} // namespace constrain
