#pragma once

#include "limits.hpp"

#include <constrain/op/embedding/embedding.hpp>
#include <constrain/op/position_embedding/position_embedding.hpp>
#include <constrain/run/executor.hpp>
#include <constrain/run/step_rules.hpp>

#include <string>
#include <string_view>

namespace constrain::bench {

inline bool calls(step const& s, op_info const& op) { return s.op->identity == op.identity; }

/// The floating-point operations and the bytes of one call.
struct work {
  double flops = 0;
  double bytes = 0;

  double seconds_at(limits const& most) const { return most.seconds(flops, bytes); }
};

/// A plan and the rules of its ops.
struct measured_plan : plan_view {
  op_info const* const* rules = nullptr; // one for every step

  op_info const& rules_of(step const& s) const { return *rules[&s - steps]; }
};

template <class planned_entry, class device = cpu> measured_plan measured_plan_of() {
  return {view_of<planned_entry, device>(), step_rules<planned_entry>.data()};
}

/// The op's cost rule, with corrections: an output that accumulates or is updated is also read, an embedding reads only
/// the rows of its tokens, and an embedding gradient that accumulates adds only to these rows.
inline work work_of(measured_plan const& plan, step const& s, bound_operand const* bound, unsigned adds) {
  operand_types inputs, outputs;
  double stack = 1, added_to = 0;
  // An update also reads its outputs, except the compute copy, the second output.
  bool const updates = op::is_update(*s.op);
  bool const copies = updates && std::string_view(s.op->name) != "update";
  for (int k = 0; k < s.inputs + s.outputs; ++k) {
    auto const& o = plan.operands[s.first_operand + k];
    (k < s.inputs ? inputs : outputs).push_back({o.type, o.shape});
    auto const instances =
        o.shape.elements() == 0 ? 1 : static_cast<double>(bound[k].count) / static_cast<double>(o.shape.elements());
    stack = std::max(stack, instances);
    if (k >= s.inputs && ((updates && !(copies && k == s.inputs + 1)) || (adds >> (k - s.inputs) & 1u) != 0))
      added_to += static_cast<double>(o.shape.elements() * size_of(o.type));
  }
  auto const bytes_of = [](operand_type const& o) { return static_cast<double>(o.shape.elements() * size_of(o.type)); };
  auto c = plan.rules_of(s).cost_of(inputs, outputs, s.attributes);
  if (calls(s, info_of<op::embedding>)) c.bytes_read = bytes_of(outputs[0]);
  if (calls(s, info_of<op::position_embedding>))
    c.bytes_read = bytes_of(inputs[0]) + bytes_of(outputs[0]) / static_cast<double>(inputs[0].shape.extent[0]);
  if (calls(s, info_of<op::embedding_gradient>) && (adds & 1u) != 0) {
    added_to = static_cast<double>(inputs[0].shape.elements() * size_of(outputs[0].type));
    c.bytes_written = added_to;
    c.flops = static_cast<double>(inputs[0].shape.elements());
  }
  return {stack * c.flops, stack * (c.bytes_read + c.bytes_written + added_to)};
}

/// The shape as text, for example "4x256x768".
inline std::string text_of(shape const& s) {
  std::string text;
  for (int i = 0; i < s.rank; ++i) text.append(i > 0 ? "x" : "").append(std::to_string(s.extent[i]));
  return text.empty() ? "scalar" : text;
}

/// The op's name and the shapes of its first one or two operands, which distinguish its calls.
inline std::string name_of_call(plan_view const& plan, step const& s) {
  auto const& first = plan.operands[s.first_operand];
  std::string text = s.op->name;
  text.append("/").append(text_of(first.shape));
  if (s.inputs > 1 && plan.operands[s.first_operand + 1].shape.rank > 0)
    text.append(",").append(text_of(plan.operands[s.first_operand + 1].shape));
  return text;
}

/// The op's name; for a GEMM, also the shape of its weight.
inline std::string name_of_kind(plan_view const& plan, step const& s) {
  std::string_view const name = s.op->name;
  auto const shape_of = [&](int k) { return text_of(plan.operands[s.first_operand + k].shape); };
  if (name == "linear" || name == "linear_input_gradient") return std::string(name) + " " + shape_of(1);
  if (name == "linear_weight_gradient") return std::string(name) + " " + shape_of(s.inputs);
  return std::string(name);
}

} // namespace constrain::bench
