#pragma once

#include "constrain/policy/rule.hpp"

#include <cstdint>

/// Activation checkpointing (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"). For runs saved on disk
/// see train/saved.
namespace constrain::inline CONSTRAIN_VARIANT::checkpoint {

struct none;
template <int iterations> struct every;
struct sqrt;

} // namespace constrain::checkpoint

namespace constrain::inline CONSTRAIN_VARIANT::slot_of {

/// The slot of activation checkpointing; is_slot.hpp explains its members.
struct checkpointing {
  bool recomputes = false;  // whether the backward pass computes the activations of repeats again
  int iterations = 0;       // k of checkpoint::every<k>; 0 for the others
  bool square_root = false; // whether it is checkpoint::sqrt
  friend constexpr bool operator==(checkpointing const&, checkpointing const&) = default;

  /// The number of iterations of a segment, of which only the input is kept, in a repeat with `extent` iterations; 0:
  /// all activations are kept.
  constexpr int segment_of(std::int64_t extent) const {
    if (!square_root) return iterations;
    int root = 1;
    while (std::int64_t{root} * root < extent) ++root;
    return root;
  }

  template <class...> using otherwise = checkpoint::none;
  template <class policy> struct named { using checkpointing = policy; };
  using examples = policy_list<checkpoint::none, checkpoint::every<2>, checkpoint::sqrt>;
  using refused = policy_list<checkpoint::every<0>>;
  static constexpr bool free_on_resume = true;

  CONSTRAIN_RULE(one_checkpointing, (said<checkpointing> const& c), c.given <= 1,
                 "trainer: two checkpoint policies are given; keep checkpoint::none or one checkpoint::every<k>");
  CONSTRAIN_RULE(some_iterations, (checkpointing const& c), !c.recomputes || c.square_root || c.iterations >= 1,
                 "checkpoint::every<k>: k is at least 1; write checkpoint::none to keep all activations");
  using rules = rule_list<one_checkpointing, some_iterations>;
};

} // namespace constrain::slot_of

namespace constrain::inline CONSTRAIN_VARIANT::checkpoint {

/// Keeps all activations for the backward pass.
struct none {
  using slot = slot_of::checkpointing;
  static constexpr slot value{};
};

/// Keeps the input of every `iterations`-th iteration of a `repeat` (layer/repeat.hpp); the backward pass computes the
/// other activations of the repeat again. The weights after training are the same as with `none`, bit for bit.
template <int iterations> struct every {
  using slot = slot_of::checkpointing;
  static constexpr slot value{.recomputes = true, .iterations = iterations};
};

/// `every<k>` with k = the square root of each repeat's number of iterations, rounded up, so that as many inputs are
/// kept as iterations are computed again at a time (Chen et al. 2016, section 4.1). If the activations of an iteration
/// take much more memory than its input, as in a transformer, every<1> takes less.
struct sqrt {
  using slot = slot_of::checkpointing;
  static constexpr slot value{.recomputes = true, .square_root = true};
};

} // namespace constrain::checkpoint
