#pragma once

#include "constrain/policy/slot.hpp"

/// Whether neighbouring operations become one kernel, so that what lies between them is never stored.
namespace constrain::fusion {

/// Wherever the library has such a kernel.
struct automatic {
  using slot = slot_of::fusion;
  static constexpr char const* name = "fusion::automatic";
  static constexpr bool fuses = true;
};

/// Nowhere: each operation as the model writes it, for reference.
struct none {
  using slot = slot_of::fusion;
  static constexpr char const* name = "fusion::none";
  static constexpr bool fuses = false;
};

} // namespace constrain::fusion
