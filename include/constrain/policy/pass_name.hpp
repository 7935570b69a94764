#pragma once

#include "constrain/base/variant.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The library's passes that a policy's own may follow, in their order. Programs without gradients (evaluate, predict,
/// generate) run those that are marked.
enum class pass_name {
  built,             // marked: the model and the objective, as they are written
  selected,          // marked: the algorithm of attention
  without_dead_code, // marked: what is computed in vain is gone
  accumulated,       // the loop over micro-batches
  cast,              // marked: mixed precision
  differentiated,    // gradients
  updated,           // their norm, clipping, the update of every trained parameter
  recomputed,        // activation checkpointing
  fused,             // marked: neighbours in one kernel
  sharded,           // marked: collectives
};

/// As it stands in explanations: "without dead code".
constexpr char const* name_of(pass_name p) {
  constexpr char const* names[] = {"built",          "selected", "without dead code", "accumulated", "cast",
                                   "differentiated", "updated",  "recomputed",        "fused",       "sharded"};
  return names[static_cast<int>(p)];
}

} // namespace constrain
