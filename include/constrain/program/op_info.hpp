#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/base/fixed_vector.hpp"
#include "constrain/program/division.hpp"
#include "constrain/program/layout.hpp"
#include "constrain/program/node.hpp"
#include "constrain/program/op_label.hpp"
#include "constrain/program/options.hpp"
#include "constrain/program/refusal.hpp"
#include "constrain/program/role.hpp"
#include "constrain/program/shape.hpp"

#include <algorithm>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Type and shape of one operand, for shape rules and cost rules.
struct operand_type {
  dtype type = dtype::f32; // of an element in memory
  constrain::shape shape;  // of one instance
  friend constexpr bool operator==(operand_type const&, operand_type const&) = default;
};

/// Types and shapes of the inputs, or of the outputs, of one call.
using operand_types = fixed_vector<operand_type, std::max(node::maximum_inputs, node::maximum_outputs)>;

/// The result of a shape rule: types and shapes of the outputs, or why the inputs are refused.
struct inferred {
  fixed_vector<operand_type, node::maximum_outputs> outputs; // in the kernel's order
  why reason = why::nothing;                                 // why the inputs are refused; `nothing`: accepted
  std::int64_t expected = 0;                                 // the number that the refusal's sentence calls `expected`
  std::int64_t got = 0;                                      // the number that the refusal's sentence calls `got`
  refusal_label const* refusal = nullptr;                    // if `reason` is `refused`: the refusal with its sentence

  /// Accepts, with one output.
  static constexpr inferred one(dtype type, shape s) {
    inferred result;
    result.outputs.push_back({type, s});
    return result;
  }
  /// Refuses for a reason of the intermediate representation (sound.hpp), with the two numbers of that reason's
  /// sentence.
  static constexpr inferred failure(why reason, std::int64_t expected, std::int64_t got) {
    inferred result;
    result.reason = reason;
    result.expected = expected;
    result.got = got;
    return result;
  }
  /// Refuses with the sentence of a refusal (refusal.hpp) and the sentence's two numbers.
  template <template <diagnosis> class sentence>
  static constexpr inferred failure(std::int64_t expected, std::int64_t got) {
    auto result = failure(why::refused, expected, got);
    result.refusal = refusal_with<sentence>();
    return result;
  }
  /// The refusal as an error of the call at source line `line`.
  constexpr diagnosis at(int line, int called_from) const {
    return {reason, line, called_from, expected, got, refusal};
  }
  /// This result with one more output. Refused: more outputs than a node can have.
  constexpr inferred and_also(dtype type, shape s) const {
    auto result = *this;
    if (!result.outputs.push_back({type, s}))
      return failure(why::too_many_operands, node::maximum_outputs, node::maximum_outputs + 1);
    return result;
  }
};

/// Work and memory traffic of one call to an op.
struct cost {
  double flops = 0;         // floating-point operations: a multiply-add counts as 2
  double bytes_read = 0;    // by the kernel, from memory; `cost_by_operands` omits outputs that the kernel also reads
  double bytes_written = 0; // by the kernel, to memory
};

class backward;
struct builder;

/// The rules and properties of an op, made from the op's type (is_op.hpp). Each call in a program points to the
/// `op_info` of its op. Compare ops by `identity`: g++ -fsanitize=undefined rejects a comparison of two addresses in a
/// constant expression. For the same reason, test the members `has_...` instead of comparing a pointer with null.
struct op_info : op_label {
  op_label const* label = nullptr; // name and identity; plans point only to labels, so that a binary holds no rules
  std::uint64_t written_as = 0;    // identity of the op that the model calls: this op, or the op that this op replaces
  inferred (*infer)(operand_types const& inputs, attributes const&) = nullptr; // the shape rule
  // the cost rule
  cost (*cost_of)(operand_types const& inputs, operand_types const& outputs, attributes const&) = nullptr;
  void (*gradient)(backward&) = nullptr; // the gradient rule
  bool has_gradient = false;             // whether `gradient` is set; false: the op is not differentiable
  unsigned in_place = 0;                 // bit i: output 0 may be written over input i
  unsigned accumulating = 0;             // bit j: the kernel can add to output j
  unsigned workspace = 0;                // bit j: output j is scratch
  unsigned row_sums = 0;                 // bit j: output j is a sum over rows; the options are `row_sum_options`
  // bit i: input i is an operand of a GEMM: precision::tf32 rounds it; in mixed precision, if one of these operands has
  // the compute type, the others are cast to this type
  unsigned gemm_operands = 0;
  unsigned strided_inputs = 0;  // bit i: input i may be strided
  unsigned strided_outputs = 0; // bit j: output j may be strided
  layout_rule layouts;          // which elements of the outputs depend on which elements of the inputs
  // bit i: input i holds a label for each row; a row with the label `ignored_label` is 0 in output 0 or, if output 0 is
  // a sum over the rows, adds nothing to it
  unsigned label_inputs = 0;
  bool (*divide)(attributes&, division&) = nullptr;   // changes the options to one rank's options (division.hpp)
  bool has_divide = false;                            // whether `divide` is set
  layout_change change;                               // of a collective, or of an op that works only on shards
  void (*flat_form)(builder&, node const&) = nullptr; // appends the replacement for a call whose input 0 is flat
  bool has_flat_form = false;                         // whether `flat_form` is set
  // appends the replacement for a call whose input 0 is divided over a tensor group
  void (*divided_form)(builder&, node const&) = nullptr;
  bool has_divided_form = false;               // whether `divided_form` is set
  bool exchanges = false;                      // exchanges data between ranks
  bool same_data = false;                      // the ranks that exchange data train on the same batches
  bool has_bias_gradient = false;              // whether `with_bias_gradient` is set
  op_info const* with_bias_gradient = nullptr; // this op fused with linear_bias_gradient of output 0
  // appends the replacement for a call: a call that also writes output 0, converted to the type of `copy`, into `copy`
  void (*copying_form)(builder&, node const&, ref copy) = nullptr;
  bool has_copying_form = false;          // whether `copying_form` is set
  bool only_in_training = false;          // outside training, readers of output 0 read input 0 (dropout)
  bool has_in_evaluation = false;         // whether `in_evaluation` is set
  op_info const* in_evaluation = nullptr; // the op, without options, that replaces this one outside training
  bool draws_random = false;              // each call gets its own random key; a gradient has its forward call's key
  bool promotes_types = false;            // inputs of different types are cast to the widest
  bool any_gradient_type = false;         // the gradient rule accepts gradients of any type
  bool guarded = false;                   // changes nothing if `update_rule::scale` is 0

  /// Whether the layout of input 0 or of output 0 is not `replicated`.
  constexpr bool changes_layout() const { return change.from != layout::replicated || change.to != layout::replicated; }
};

/// The default cost rule: every input is read once, every output is written once, and each output element takes one
/// operation. The options are ignored. An output that the kernel also reads, such as a weight that an optimizer updates
/// or a gradient to which the kernel adds, counts only as written.
constexpr cost cost_by_operands(operand_types const& inputs, operand_types const& outputs, attributes const& = {}) {
  cost result;
  for (auto const& input : inputs)
    result.bytes_read += static_cast<double>(input.shape.elements() * size_of(input.type));
  for (auto const& output : outputs) {
    result.flops += static_cast<double>(output.shape.elements());
    result.bytes_written += static_cast<double>(output.shape.elements() * size_of(output.type));
  }
  return result;
}

namespace detail {

/// Calls the shape rule of an op with the inputs and, if the rule has a second parameter, the op's `options` or the
/// stored `attributes`. If the rule takes the `options`, a shape in them with an extent below 1 is refused.
template <class op> constexpr inferred infer_of(operand_types const& in, attributes const& a) {
  if constexpr (requires { op::infer(in); }) return op::infer(in);
  else if constexpr (requires { op::infer(in, a); }) return op::infer(in, a);
  else {
    unpacked<options_of<op>> const options(a);
    if (options.bad_extent < 1) return inferred::failure(why::extent_below_one, 1, options.bad_extent);
    return op::infer(in, options.values);
  }
}

/// Calls the cost rule of an op, with arguments chosen as in `infer_of`.
template <class op> constexpr cost cost_of_op(operand_types const& in, operand_types const& out, attributes const& a) {
  if constexpr (requires { op::cost_of(in, out); }) return op::cost_of(in, out);
  else if constexpr (requires { op::cost_of(in, out, a); }) return op::cost_of(in, out, a);
  else return op::cost_of(in, out, unpack<options_of<op>>(a));
}

template <class op> constexpr bool divide_op(attributes& a, division& d) {
  auto options = unpack<options_of<op>>(a);
  bool const is_possible = op::divide(options, d);
  a = pack(options);
  return is_possible;
}

template <class op> constexpr op_info const* address_of_info();

/// Copies the optional members of an op that are constants.
template <class op> constexpr void set_properties(op_info& info) {
  if constexpr (requires { op::in_place; }) info.in_place = op::in_place;
  if constexpr (requires { op::accumulating; }) info.accumulating = op::accumulating;
  if constexpr (requires { op::workspace; }) info.workspace = op::workspace;
  if constexpr (requires { op::strided_inputs; }) info.strided_inputs = op::strided_inputs;
  if constexpr (requires { op::strided_outputs; }) info.strided_outputs = op::strided_outputs;
  if constexpr (requires { op::change; }) info.change = op::change;
  if constexpr (requires { op::exchanges; }) info.exchanges = op::exchanges;
  if constexpr (requires { op::same_data; }) info.same_data = op::same_data;
  if constexpr (requires { op::label_inputs; }) info.label_inputs = op::label_inputs;
  if constexpr (requires { op::only_in_training; }) info.only_in_training = op::only_in_training;
  if constexpr (requires { op::row_sums; }) info.row_sums = op::row_sums;
  if constexpr (requires { op::gemm_operands; }) info.gemm_operands = op::gemm_operands;
  if constexpr (requires { op::draws_random; }) info.draws_random = op::draws_random;
  if constexpr (requires { op::promotes_types; }) info.promotes_types = op::promotes_types;
  if constexpr (requires { op::any_gradient_type; }) info.any_gradient_type = op::any_gradient_type;
  if constexpr (requires { op::guarded; }) info.guarded = op::guarded;
}

template <class op> constexpr op_info make_op_info() {
  static_assert(sizeof(registered<op>) > 0); // the instantiation registers the op
  op_info info;
  static_cast<op_label&>(info) = label_of<op>;
  info.label = &label_of<op>;
  info.written_as = info.identity;
  if constexpr (requires { typename op::written_as; }) info.written_as = identity_of<typename op::written_as>();
  info.infer = &infer_of<op>;
  info.cost_of = &cost_by_operands;
  if constexpr (requires { &op::cost_of; }) info.cost_of = &cost_of_op<op>;
  if constexpr (requires { &op::gradient; }) {
    info.gradient = &op::gradient;
    info.has_gradient = true;
  }
  if constexpr (requires { op::layouts; }) {
    constexpr auto rule = parse_layouts(op::layouts);
    info.layouts = rule;
    static_assert(rule.valid,
                  "op: its `layouts` is not a rule; write a pattern (* ... # - or up to two letters a to z, as in oi "
                  "and +o) for each input and, after ->, for each output (without #), as in \"...i, oi, +o -> ...o\"; "
                  "only the first four inputs and outputs can have letters, and only the last input can have a +; if "
                  "one output is *, all outputs must be *");
  }
  if constexpr (requires { &op::divide; }) {
    info.divide = &divide_op<op>;
    info.has_divide = true;
  }
  if constexpr (requires { &op::flat_form; }) {
    info.flat_form = &op::flat_form;
    info.has_flat_form = true;
  }
  if constexpr (requires { &op::divided_form; }) {
    info.divided_form = &op::divided_form;
    info.has_divided_form = true;
  }
  if constexpr (requires { &op::copying_form; }) {
    info.copying_form = &op::copying_form;
    info.has_copying_form = true;
  }
  if constexpr (requires { typename op::with_bias_gradient; }) {
    info.with_bias_gradient = address_of_info<typename op::with_bias_gradient>();
    info.has_bias_gradient = true;
  }
  if constexpr (requires { typename op::in_evaluation; }) {
    info.in_evaluation = address_of_info<typename op::in_evaluation>();
    info.has_in_evaluation = true;
  }
  set_properties<op>(info);
  if (info.draws_random) info.layouts = info.layouts.of_full_tensors();
  return info;
}

} // namespace detail

/// The `op_info` of an op: one constant per op type.
template <class op> inline constexpr op_info info_of = detail::make_op_info<op>();

namespace detail {
template <class op> constexpr op_info const* address_of_info() { return &info_of<op>; }
} // namespace detail

/// Whether a node is a call to `op`.
constexpr bool calls(node const& n, op_info const& op) {
  return n.kind == node_kind::call && n.op->identity == op.identity;
}

} // namespace constrain
