#pragma once

#include "constrain/policy/slot.hpp"

/// How attention is computed. A model writes `self_attention`; the `select` pass takes the algorithm from here.
namespace constrain::inline CONSTRAIN_VARIANT::attention {

/// The probabilities are kept, [sequences, heads, tokens, tokens]: simple, and what the others are held against.
struct reference {
  using slot = slot_of::attention;
  static constexpr char const* name = "attention::reference";
  static constexpr bool tiled = false;
};

/// A tile of the scores at a time, in memory linear in the tokens (Dao et al. 2022, Dao 2023).
struct flash {
  using slot = slot_of::attention;
  static constexpr char const* name = "attention::flash";
  static constexpr bool tiled = true;
};

/// The fastest that the device has.
template <class device>
using automatic = std::conditional_t<device::is_cuda, reference, flash>;

} // namespace constrain::attention
