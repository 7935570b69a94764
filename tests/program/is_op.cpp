#include <constrain/op/add/add.hpp>
#include <constrain/op/cross_entropy/cross_entropy.hpp>
#include <constrain/op/linear/linear.hpp>
#include <constrain/program/is_op.hpp>

// The requirements of an op, positive and negative.

using namespace constrain;

namespace {

static_assert(is_op<op::add> && is_op<op::linear> && has_gradient_rule<op::add> && has_gradient_rule<op::linear>);

struct whole {
  static constexpr char const* name = "whole";
  static constexpr inferred infer(operand_types const& in, attributes const&) {
    return inferred::one(in[0].type, in[0].shape);
  }
};
static_assert(is_op<whole> && !has_gradient_rule<whole>);

struct without_name {
  static constexpr inferred infer(operand_types const& in, attributes const&) {
    return inferred::one(in[0].type, in[0].shape);
  }
};
struct without_rule {
  static constexpr char const* name = "without_rule";
};
struct rule_of_a_shape {
  static constexpr char const* name = "rule_of_a_shape";
  static constexpr shape infer(operand_types const& in, attributes const&) { return in[0].shape; }
};
struct rule_of_operands {
  static constexpr char const* name = "rule_of_operands";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};
struct rule_of_options {
  struct options {
    int columns = 1;
  };
  static constexpr char const* name = "rule_of_options";
  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(in[0].type, shape(o.columns));
  }
};
struct rule_of_other_options {
  static constexpr char const* name = "rule_of_other_options";
  static constexpr inferred infer(operand_types const& in, rule_of_options::options const& o) {
    return inferred::one(in[0].type, shape(o.columns));
  }
};
static_assert(is_op<rule_of_operands> && is_op<rule_of_options>);
struct gradient_of_nothing : whole {
  static constexpr void gradient() {}
};
static_assert(!is_op<int> && !is_op<without_name> && !is_op<without_rule> && !is_op<rule_of_a_shape> &&
              !is_op<rule_of_other_options>);
static_assert(is_op<gradient_of_nothing> && !has_gradient_rule<gradient_of_nothing>);

} // namespace
