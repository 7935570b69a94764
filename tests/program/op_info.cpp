#include <constrain/op/add/add.hpp>
#include <constrain/op/attention/attention.hpp>
#include <constrain/op/cross_entropy/cross_entropy.hpp>
#include <constrain/op/dropout/dropout.hpp>
#include <constrain/op/flash_attention/flash_attention.hpp>
#include <constrain/op/gelu/gelu.hpp>
#include <constrain/op/linear/linear.hpp>
#include <constrain/op/regularized_cross_entropy/regularized_cross_entropy.hpp>
#include <constrain/op/silu/silu.hpp>
#include <doctest/doctest.h>

#include <string_view>
#include <type_traits>

using namespace constrain;

namespace {

// Members that an op declares are used; all others have defaults.
static_assert(info_of<op::add>.name == std::string_view("add") && info_of<op::add>.in_place == 0b11);
static_assert(info_of<op::add>.gradient == &op::add::gradient && info_of<op::add>.cost_of == &cost_by_operands);
static_assert(info_of<op::linear>.cost_of != &cost_by_operands && info_of<op::linear>.in_place == 0);
static_assert(info_of<op::linear_weight_gradient>.gradient == nullptr &&
              info_of<op::linear_weight_gradient>.accumulating == 0b1);
static_assert(info_of<op::attention_gradient>.workspace == 0b1000);
static_assert(info_of<op::attention>.strided_inputs == 0b111 &&
              info_of<op::attention_gradient>.strided_inputs == 0b1110 &&
              info_of<op::flash_attention_gradient>.strided_outputs == 0b111 && info_of<op::add>.strided_inputs == 0);
static_assert(info_of<op::dropout>.only_in_training && !info_of<op::add>.only_in_training);
static_assert(info_of<op::regularized_cross_entropy>.in_evaluation->identity == info_of<op::cross_entropy>.identity);
static_assert(info_of<op::dropout>.draws_random && !info_of<op::add>.draws_random);

// The elements of an op that draws random numbers depend on their positions in full tensors, whatever it declares.
struct noise : op::add {
  static constexpr char const* name = "noise";
  static constexpr char const* layouts = "*, #, ...i -> *";
  static constexpr bool draws_random = true;
};
static_assert(!info_of<noise>.layouts.by_elements() && info_of<noise>.layouts.inputs.elements == 0);
static_assert(info_of<noise>.layouts.inputs.rows == 0 && info_of<noise>.layouts.inputs.inner_of(2) == 0);
static_assert(info_of<noise>.layouts.inputs.unread == 0b10);

struct own {
  static constexpr char const* name = "own";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};
static_assert(info_of<own>.gradient == nullptr && info_of<own>.in_place == 0 &&
              info_of<own>.cost_of == &cost_by_operands);

// Ops are told apart by address, also the same maths of two functors; the type comes back from it.
static_assert(&info_of<op::elementwise<op::gelu>> != &info_of<op::elementwise<op::gelu_tanh>>);
static_assert(std::is_same_v<op_type<info_of<own>.label>, own>);
static_assert(std::is_same_v<op_type<info_of<op::elementwise<op::silu>>.label>, op::elementwise<op::silu>>);

constexpr operand_types two(shape a, shape b, dtype type = dtype::f32) {
  operand_types in;
  in.push_back({type, a});
  in.push_back({type, b});
  return in;
}

} // namespace

TEST_CASE("shape rules answer with types or with a reason") {
  auto const fits = info_of<op::linear>.infer(two(shape(2, 3, 4), shape(5, 4)), {});
  REQUIRE(fits.reason == why::nothing);
  CHECK(fits.outputs[0] == operand_type{dtype::f32, shape(2, 3, 5)});
  auto const differs = info_of<op::linear>.infer(two(shape(2, 3, 4), shape(5, 6)), {});
  CHECK(differs.refusal == refusal_with<op::widths_differ>());
  CHECK(differs.expected == 6);
  CHECK(differs.got == 4);
  CHECK(differs.outputs.empty());
}

TEST_CASE("the cost of an op") {
  operand_types out;
  out.push_back({dtype::f64, shape(2, 3)});
  auto const c = cost_by_operands(two(shape(2, 3), shape(2, 3), dtype::f64), out, {});
  CHECK(c.flops == 6);
  CHECK(c.bytes_read == 2 * 6 * 8);
  CHECK(c.bytes_written == 6 * 8);
  operand_types product;
  product.push_back({dtype::f32, shape(2, 3, 5)});
  CHECK(info_of<op::linear>.cost_of(two(shape(2, 3, 4), shape(5, 4)), product, {}).flops == 2 * 6 * 4 * 5);
}
