#pragma once

#include "constrain/base/variant.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The library's passes after which a policy's pass can run, in order. `forward`: also a pass of the programs without
/// gradients (evaluate, predict, generate).
enum class pass_name {
  built,             // forward: the program before any pass
  selected,          // forward: the attention algorithm is chosen
  without_dead_code, // forward: dead code is removed
  accumulated,       // the loop over micro-batches is added
  cast,              // forward: casts for mixed precision are added
  differentiated,    // the backward pass is added
  updated,           // gradient norm, clipping and the update of every trained parameter are added; with
                     // optimizer::in_backward, the updates are inside the backward pass, without clipping
  recomputed,        // activation checkpointing is applied
  fused,             // forward: neighboring operations are fused
  sharded,           // forward: collectives are inserted
};

/// The name of a pass's result, for printed programs.
constexpr char const* name_of(pass_name p) {
  constexpr char const* names[] = {"built",          "selected", "without dead code", "accumulated", "cast",
                                   "differentiated", "updated",  "recomputed",        "fused",       "sharded"};
  return names[static_cast<int>(p)];
}

} // namespace constrain
