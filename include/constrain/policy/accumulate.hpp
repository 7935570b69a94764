#pragma once

#include "constrain/policy/rule.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <int micro_batches> struct accumulate;

namespace slot_of {

/// The slot of gradient accumulation; is_slot.hpp explains the members of a slot.
struct accumulation {
  int micro_batches = 1; // micro-batches per optimizer step
  friend constexpr bool operator==(accumulation const&, accumulation const&) = default;

  template <class...> using otherwise = accumulate<1>;
  template <class policy> struct named { using accumulation = policy; };
  using examples = policy_list<accumulate<1>, accumulate<4>>;
  using refused = policy_list<accumulate<0>>;
  static constexpr bool free_on_resume = true;

  CONSTRAIN_RULE(one_accumulation, (said<accumulation> const& a), a.given <= 1,
                 "policies: more than one accumulate policy is given; keep one, for example accumulate<4>");
  CONSTRAIN_RULE(some_micro_batches, (accumulation const& a), a.micro_batches >= 1,
                 "accumulate<N>: N must be at least 1; write accumulate<1> or leave the policy out");
  using rules = rule_list<one_accumulation, some_micro_batches>;
};

} // namespace slot_of

/// Gradient accumulation: one optimizer step uses the summed gradients of `micro_batches` micro-batches. If the
/// objective averages with `inverse_label_count`, as the library's objectives do, and `ct::dropout` gets tensors whose
/// first dimension is the sequences, the result equals a step on one large micro-batch with the same sequences, up to
/// the rounding of floating-point sums. The default, `accumulate<1>`, adds no loop to the program. `micro_batches` must
/// be at least 1.
template <int micro_batches> struct accumulate {
  using slot = slot_of::accumulation;
  static constexpr slot value{.micro_batches = micro_batches};
};

} // namespace constrain
