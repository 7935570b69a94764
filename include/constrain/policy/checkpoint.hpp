#pragma once

#include "constrain/base/units.hpp"
#include "constrain/policy/rule.hpp"
#include "constrain/program/is_op.hpp"
#include "constrain/program/op_set.hpp"

#include <cstdint>

/// Activation checkpointing (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"). For runs saved on
/// disk, see train/saved.
namespace constrain::inline CONSTRAIN_VARIANT::checkpoint {

struct none;
template <int iterations> struct every;
struct sqrt;
template <class... ops> struct keep;
template <bytes limit> struct budget;

} // namespace constrain::checkpoint

namespace constrain::inline CONSTRAIN_VARIANT::slot_of {

/// The slot of activation checkpointing; is_slot.hpp explains the members of a slot.
struct checkpointing {
  bool recomputes = false;   // whether the policy is checkpoint::every or checkpoint::sqrt
  int iterations = 0;        // k of checkpoint::every<k>; 0 for other policies
  bool square_root = false;  // whether the policy is checkpoint::sqrt
  bool by_operation = false; // whether the policy is checkpoint::keep
  op_set kept{};             // the ops of checkpoint::keep
  int unknown_ops = 0;       // arguments of checkpoint::keep that are not ops, plus 1 if it has more than 16 arguments
  bool has_limit = false;    // whether the policy is checkpoint::budget
  bytes limit{};             // maximum size of the arena with checkpoint::budget; 0 for other policies
  friend constexpr bool operator==(checkpointing const&, checkpointing const&) = default;

  /// The number of iterations per segment in a repeat with `extent` iterations. Only the input of each segment is kept.
  /// 0: no segments.
  constexpr int segment_length(std::int64_t extent) const {
    if (!square_root) return iterations;
    int root = 1;
    while (std::int64_t{root} * root < extent) ++root;
    return root;
  }

  /// Whether a search chooses what to recompute. False for a limit below 1 byte, which is a compile-time error.
  constexpr bool searches() const { return has_limit && limit > bytes(0); }

  template <class...> using otherwise = checkpoint::none;
  template <class policy> struct named { using checkpointing = policy; };
  using examples = policy_list<checkpoint::none, checkpoint::every<2>, checkpoint::sqrt, checkpoint::keep<>,
                               checkpoint::budget<gibibytes(1)>>;
  using refused = policy_list<checkpoint::every<0>, checkpoint::keep<int>, checkpoint::budget<bytes(0)>>;
  static constexpr bool free_on_resume = true;

  CONSTRAIN_RULE(one_checkpointing, (said<checkpointing> const& c), c.given <= 1,
                 "policies: more than one checkpoint policy is given; keep one, for example checkpoint::sqrt");
  CONSTRAIN_RULE(some_iterations, (checkpointing const& c), !c.recomputes || c.square_root || c.iterations >= 1,
                 "checkpoint::every<k>: k must be at least 1; write checkpoint::none to keep all activations");
  CONSTRAIN_RULE(only_ops_are_kept, (checkpointing const& c), c.unknown_ops == 0,
                 "checkpoint::keep<ops...>: an argument is not an op, or there are more than 16 arguments; write at "
                 "most 16 ops, such as ct::op::attention and ct::op::elementwise<ct::op::gelu>");
  CONSTRAIN_RULE(some_bytes, (checkpointing const& c), !c.has_limit || c.limit > bytes(0),
                 "checkpoint::budget<limit>: the limit must be at least 1 byte; write the number of bytes that the "
                 "trainer may use, such as ct::mebibytes(4096)");
  using rules = rule_list<one_checkpointing, some_iterations, only_ops_are_kept, some_bytes>;
};

} // namespace constrain::slot_of

namespace constrain::inline CONSTRAIN_VARIANT::checkpoint {

/// Keeps all activations for the backward pass.
struct none {
  using slot = slot_of::checkpointing;
  static constexpr slot value{};
};

/// Keeps the input of every `iterations`-th iteration of each outermost `repeat` (layer/repeat.hpp). `iterations` must
/// be at least 1. The backward pass recomputes the other activations of the repeat. Training gives the same weights as
/// with `none`, bit for bit.
template <int iterations> struct every {
  using slot = slot_of::checkpointing;
  static constexpr slot value{.recomputes = true, .iterations = iterations};
};

/// `every<k>` with a separate k for each repeat: the square root of the repeat's number of iterations, rounded up. The
/// repeat keeps about k inputs and recomputes k iterations at a time (Chen et al. 2016). If the activations of an
/// iteration take much more memory than its input, as in a transformer, every<1> takes less memory.
struct sqrt {
  using slot = slot_of::checkpointing;
  static constexpr slot value{.recomputes = true, .square_root = true};
};

namespace detail {

/// The value of `keep<ops...>`.
template <class... ops> constexpr slot_of::checkpointing value_of_keep() {
  slot_of::checkpointing value{.by_operation = true};
  [[maybe_unused]] auto const add_op = [&]<class op> {
    if constexpr (is_op<op>) value.kept.add(constrain::detail::label_of<op>);
    else ++value.unknown_ops;
  };
  (add_op.template operator()<ops>(), ...);
  if (sizeof...(ops) > op_set::capacity) ++value.unknown_ops;
  return value;
}

} // namespace detail

/// Selective recomputation (Korthikanti et al. 2022, section 5). Keeps the results of these ops; the backward pass
/// recomputes the other activations that it needs, inside and outside repeats, each just before its first use. Some
/// activations are always kept: the inputs of the iterations of each repeat, the results of collectives and of ops that
/// read or write an accumulator (such as the loss), results that are read outside of a loop around their op, results
/// that the backward pass needs so soon that dropping them would free no memory, and, with optimizer::in_backward,
/// results that could be recomputed only from a parameter that is already updated. `keep<>` keeps only these. Name the
/// ops that the model calls: `keep<op::attention>` also keeps the results of flash attention. An element-wise function
/// f is `op::elementwise<f>`. At most 16 ops can be named. Training gives the same weights as with `none`, bit for bit.
template <class... ops> struct keep {
  using slot = slot_of::checkpointing;
  static constexpr slot value = detail::value_of_keep<ops...>();
};

namespace detail {

/// The name of a budget, such as "checkpoint::budget<mebibytes(16)>", in the largest unit that divides the limit.
constexpr fixed_vector<char, 64> name_of_budget(bytes limit) {
  fixed_vector<char, 64> name;
  auto const append = [&](char const* s) {
    for (; *s != 0; ++s) name.push_back(*s);
  };
  constexpr char const* units[] = {"bytes(", "kibibytes(", "mebibytes(", "gibibytes("};
  int unit = 0;
  auto n = limit.count();
  for (; unit < 3 && n > 0 && n % 1024 == 0; ++unit) n /= 1024;
  append("checkpoint::budget<"), append(units[unit]);
  if (n < 0) append("-");
  char digits[24]{};
  int k = 23; // the last character is the terminating null
  do digits[--k] = static_cast<char>('0' + (n < 0 ? -(n % 10) : n % 10)), n /= 10;
  while (n != 0);
  append(digits + k), append(")>");
  return name;
}

} // namespace detail

/// Chooses what the backward pass recomputes, so that the arena (the memory of a trainer's tensors) takes at most
/// `limit` bytes. A search at compile time looks for a plan of the step that fits and recomputes little
/// (pass/recomputation_search.hpp). If the limit is large enough, nothing is recomputed. If the search finds no plan
/// that fits, or if evaluate, predict or generate needs more than the limit, compilation fails, and the error gives the
/// number of missing bytes. Training gives the same weights as with `none`, bit for bit.
///
///     ct::trainer<task, ct::checkpoint::budget<ct::gibibytes(16)>> t;
template <bytes limit_> struct budget {
  using slot = slot_of::checkpointing;
  static constexpr auto text = detail::name_of_budget(limit_); // for `name`
  static constexpr char const* name = text.elements;
  static constexpr slot value{.has_limit = true, .limit = limit_};
};

} // namespace constrain::checkpoint
