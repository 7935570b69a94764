#include <constrain/op/refusals.hpp>

// Calls that several ops refuse, and similar calls that they accept.

using namespace constrain;

namespace {

constexpr operand_types of(operand_type a, operand_type b) {
  operand_types in;
  in.push_back(a);
  in.push_back(b);
  return in;
}
constexpr operand_type reals{dtype::bf16, shape(2, 3)}, ids{dtype::i32, shape(2, 3)};

static_assert(needs_reals(of(reals, ids)).reason == why::nothing &&
              needs_reals(of(reals, reals), 2).reason == why::nothing);
static_assert(needs_reals(of(ids, reals)).at(7, 3) == diagnosis_with<op::integers_instead_of_floats>(7, 3, 0, 0));
static_assert(needs_reals(of(reals, ids), 2).at(7, 3) == diagnosis_with<op::integers_instead_of_floats>(7, 3, 0, 1));

constexpr diagnosis compared(shape const& a, shape const& b) {
  return needs_one_shape({dtype::f32, a}, {dtype::f64, b}).at(7, 3);
}
static_assert(compared(shape(2, 3), shape(2, 3)).ok() && compared({}, {}).ok());
static_assert(compared(shape(2, 3), shape(3)) == diagnosis_with<op::ranks_differ>(7, 3, 2, 1));
// The innermost extents that differ.
static_assert(compared(shape(2, 3, 4), shape(5, 6, 4)) == diagnosis_with<op::widths_differ>(7, 3, 3, 6));

} // namespace
