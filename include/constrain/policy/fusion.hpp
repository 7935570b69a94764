#pragma once

#include "constrain/policy/slot.hpp"

#include <cstdint>
#include <limits>

/// Whether neighbouring operations become one kernel, so that what lies between them is never stored.
namespace constrain::inline CONSTRAIN_VARIANT::fusion {

/// Where it pays. The head and its loss are one where whole logits of a micro-batch are 256 MiB or more: doing them a
/// few rows at a time saves that memory and costs a tenth of the head's time and more.
struct automatic {
  using slot = slot_of::fusion;
  static constexpr char const* name = "fusion::automatic";
  static constexpr bool fuses = true;
  static constexpr std::int64_t smallest_logits = 256 << 20; // bytes that are not stored whole
};

/// Wherever the library has such a kernel: whole logits are never stored in training and evaluation.
struct all {
  using slot = slot_of::fusion;
  static constexpr char const* name = "fusion::all";
  static constexpr bool fuses = true;
  static constexpr std::int64_t smallest_logits = 0;
};

/// Nowhere: each operation as the model writes it, for reference.
struct none {
  using slot = slot_of::fusion;
  static constexpr char const* name = "fusion::none";
  static constexpr bool fuses = false;
  static constexpr std::int64_t smallest_logits = std::numeric_limits<std::int64_t>::max();
};

/// What a trainer does where nothing is said.
template <class device> using standard = std::conditional_t<device::is_cuda, none, automatic>;

} // namespace constrain::fusion
