#pragma once

#include "constrain/policy/slot.hpp"

/// How a step's kernels are started.
namespace constrain::inline CONSTRAIN_VARIANT::launch {

/// One by one.
struct eager {
  using slot = slot_of::launching;
  static constexpr char const* name = "launch::eager";
  static constexpr bool records = false;
};

/// As one CUDA graph, recorded at the start: the same kernels on the same bytes, without the gaps between them.
struct graph {
  using slot = slot_of::launching;
  static constexpr char const* name = "launch::graph";
  static constexpr bool records = true;
};

} // namespace constrain::launch
