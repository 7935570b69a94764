#pragma once

#include "constrain/policy/device.hpp"

/// Algorithms for `self_attention`. Models do not choose one; the pass `select_attention` does, by this policy.
namespace constrain::inline CONSTRAIN_VARIANT::attention {

struct reference;
struct flash;

/// The default: the fastest one that the device has kernels for.
template <class device> using automatic = std::conditional_t<device::value.is_cuda, reference, flash>;

} // namespace constrain::attention

namespace constrain::inline CONSTRAIN_VARIANT::slot_of {

/// The slot of the attention algorithm.
struct attention {
  bool tiled = false; // flash attention
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

/// Stores the probabilities, [sequences, heads, tokens, tokens], for the backward pass: memory quadratic in the tokens.
/// Simple; tests compare `flash` with it.
struct reference {
  using slot = slot_of::attention;
  static constexpr slot value{.tiled = false};
};

/// Flash attention (Dao et al. 2022; Dao 2023): a tile of the scores at a time, memory linear in the tokens. CPU only
/// so far.
struct flash {
  using slot = slot_of::attention;
  static constexpr slot value{.tiled = true};
};

} // namespace constrain::attention
