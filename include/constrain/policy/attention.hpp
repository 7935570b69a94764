#pragma once

#include "constrain/policy/device.hpp"

/// How attention is computed. A model writes `self_attention`; the `select` pass takes the algorithm from here.
namespace constrain::inline CONSTRAIN_VARIANT::attention {

struct reference;
struct flash;

/// The fastest that the device has.
template <class device> using automatic = std::conditional_t<device::value.is_cuda, reference, flash>;

} // namespace constrain::attention

namespace constrain::inline CONSTRAIN_VARIANT::slot_of {

/// How attention is computed.
struct attention {
  bool tiled = false; // a tile of the scores at a time
  friend constexpr bool operator==(attention const&, attention const&) = default;

  template <class... list> using otherwise = constrain::attention::automatic<policy_in<device, list...>>;
  template <class policy> struct named { using attention = policy; };
  using examples = policy_list<constrain::attention::flash, constrain::attention::reference>;
  static constexpr bool free_on_resume = true;

  CONSTRAIN_RULE(one_attention, (said<attention> const& a), a.given <= 1,
                 "trainer: attention::... is given twice; keep attention::flash or attention::reference");
  using rules = rule_list<one_attention>;
};

} // namespace constrain::slot_of

namespace constrain::inline CONSTRAIN_VARIANT::attention {

/// The probabilities are kept, [sequences, heads, tokens, tokens]: simple, and what the others are held against.
struct reference {
  using slot = slot_of::attention;
  static constexpr slot value{.tiled = false};
};

/// A tile of the scores at a time, in memory linear in the tokens (Dao et al. 2022, Dao 2023).
struct flash {
  using slot = slot_of::attention;
  static constexpr slot value{.tiled = true};
};

} // namespace constrain::attention
