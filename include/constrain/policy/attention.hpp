#pragma once

#include "constrain/policy/rule.hpp"

/// Algorithms for `self_attention`. A model calls `self_attention`. An attention policy chooses the algorithm, and the
/// pass `select_attention` (pass/select.hpp) inserts it into the program. No attention policy changes a call to
/// `flash_attention`.
namespace constrain::inline CONSTRAIN_VARIANT::attention {

struct automatic;
struct reference;
struct flash;

} // namespace constrain::attention

namespace constrain::inline CONSTRAIN_VARIANT::slot_of {

/// The slot of the attention algorithm; is_slot.hpp explains the members of a slot.
struct attention {
  bool tiled = false;             // whether the algorithm is flash attention
  bool only_with_kernels = false; // whether to use `reference` on a device without kernels for the algorithm
  friend constexpr bool operator==(attention const&, attention const&) = default;

  template <class...> using otherwise = constrain::attention::automatic;
  template <class policy> struct named { using attention = policy; };
  using examples =
      policy_list<constrain::attention::automatic, constrain::attention::flash, constrain::attention::reference>;
  static constexpr bool free_on_resume = true;

  CONSTRAIN_RULE(one_attention, (said<attention> const& a), a.given <= 1,
                 "policies: more than one attention policy is given; keep one, for example attention::flash");
  using rules = rule_list<one_attention>;
};

} // namespace constrain::slot_of

namespace constrain::inline CONSTRAIN_VARIANT::attention {

/// The default: `flash` on a device that has kernels for it, else `reference`.
struct automatic {
  using slot = slot_of::attention;
  static constexpr slot value{.tiled = true, .only_with_kernels = true};
};

/// Attention computed directly from its formula. It stores the probabilities, [sequences, heads, tokens, tokens], for
/// the backward pass, so memory is quadratic in the number of tokens. Tests compare `flash` with this algorithm.
struct reference {
  using slot = slot_of::attention;
  static constexpr slot value{.tiled = false};
};

/// Flash attention (Dao et al. 2022; Dao 2023). It computes the scores tile by tile, so memory is linear in the number
/// of tokens. On a device without kernels for the algorithm, a model that calls `self_attention` does not compile.
struct flash {
  using slot = slot_of::attention;
  static constexpr slot value{.tiled = true};
};

} // namespace constrain::attention
