#pragma once

#include "constrain/policy/rule.hpp"

/// How kernels are launched.
namespace constrain::inline CONSTRAIN_VARIANT::launch {

struct eager;
struct graph;

} // namespace constrain::launch

namespace constrain::inline CONSTRAIN_VARIANT::slot_of {

/// The slot of launching; is_slot.hpp explains the members of a slot.
struct launching {
  bool captures = false; // whether kernel launches are captured in a CUDA graph
  friend constexpr bool operator==(launching const&, launching const&) = default;

  template <class...> using otherwise = launch::eager;
  template <class policy> struct named { using launching = policy; };
  using examples = policy_list<launch::eager, launch::graph>;
  static constexpr bool free_on_resume = true;

  CONSTRAIN_RULE(one_launch, (said<launching> const& l), l.given <= 1,
                 "policies: more than one launch policy is given; keep one, for example launch::eager");
  using rules = rule_list<one_launch>;
};

} // namespace constrain::slot_of

namespace constrain::inline CONSTRAIN_VARIANT::launch {

/// The host launches each kernel separately in every run of an entry program (step, evaluate, ...).
struct eager {
  using slot = slot_of::launching;
  static constexpr char const* name = "launch::eager";
  static constexpr slot value{.captures = false};
};

/// Only for CUDA devices. After the first run of an entry program, the program's kernel launches are captured in one
/// CUDA graph. Later runs replay the graph: it runs the same kernels on the same memory as the first run, without the
/// host's work for each launch. Loops over chunks of logits skip no chunk (see fusion::all). In checked mode, the host
/// launches each kernel separately.
struct graph {
  using slot = slot_of::launching;
  static constexpr char const* name = "launch::graph";
  static constexpr slot value{.captures = true};
};

} // namespace constrain::launch
