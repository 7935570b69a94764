#pragma once

#include "constrain/op/copy/copy.hpp"
#include "constrain/op/refusals.hpp"

#include <concepts>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace refusals {

/// A repeat has fewer than one iteration: `got`.
template <diagnosis d> struct repeat_of_nothing {
  static_assert(d.ok(), "ct::repeat: the number of iterations is `got`; write at least 1");
};

/// The body of a repeat returns a value whose shape differs from the argument's: the value has `got` elements, and the
/// argument has `expected`. If the two numbers are equal, only the shapes differ.
template <diagnosis d> struct repeat_changes_the_shape {
  static_assert(d.ok(), "the body of ct::repeat returns a value whose shape differs from its argument's (`got` and "
                        "`expected` elements, which may be equal); move the layers that change the shape before or "
                        "after the repeat");
};

} // namespace refusals

/// Computes x = body(x) `iterations` times and returns the last x. Each iteration has separate parameters: a parameter
/// of the body is stored as one tensor [iterations, ...]. Appends `name` and a dot to the prefix of the body's
/// parameter names, as `apply` does. The program contains the body once, so its size does not depend on the number of
/// iterations. The body must use x and return a value of x's shape. The body may read values from outside the repeat
/// and may contain repeats; at most six loops can be nested, those over micro-batches and checkpointed segments
/// included. `line`: the source line of the call, for errors. Refused: fewer than one iteration; an x of integers, such
/// as token ids; a body whose result has a different shape or belongs to another program; in mixed precision, a body
/// whose result has a different type than x; in training, a body whose result passes no gradient to x.
template <std::invocable<value> body>
constexpr value repeat(std::string_view name, int iterations, value x, body const& b, int line = __builtin_LINE()) {
  auto& owner = x.owner();
  auto& program = owner.program;
  if (iterations < 1) {
    program.fail(diagnosis_with<refusals::repeat_of_nothing>(line, owner.called_from, 1, iterations));
    return x;
  }
  scope const inside(owner, name, line);
  int const axis = program.add_axis({.name = owner.scope, .extent = iterations});
  if (x.type() == dtype::i32)
    program.fail(diagnosis_with<op::integers_instead_of_floats>(line, owner.called_from, 0, 0));
  ref const loop_carried{owner.new_value({x.type(), x.shape()}, role::activation, line, axis), at::current};

  auto const copy_to = [&](ref from, ref to) {
    owner.check_reach(from, line);
    owner.call<op::copy>({from}, {to}, {}, line);
  };
  copy_to(x.where(), {loop_carried.value, at::initial});
  owner.open(axis, false);
  value const y = b(value{owner, loop_carried});
  if (&y.owner() != &owner) program.fail({why::values_of_two_programs, line, owner.called_from, 0, 0});
  else if (y.shape() != x.shape())
    program.fail(diagnosis_with<refusals::repeat_changes_the_shape>(line, owner.called_from, x.shape().elements(),
                                                                    y.shape().elements()));
  else copy_to(y.where(), {loop_carried.value, at::next});
  owner.close();
  return {owner, {loop_carried.value, at::final}};
}

} // namespace constrain
