#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/program/op_info.hpp"
#include "constrain/program/program.hpp"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The name of an instance of a value, such as "%1@current" or "head.weight.gradient".
inline std::string name_of_value(program const& p, ref r) {
  auto const& info = p.values[r.value];
  std::string text;
  if (info.belongs_to >= 0) {
    text = std::string(p.text(p.values[info.belongs_to].name));
    if (info.role == role::state) text += concat({".", p.text(info.name)});
    else if (info.role == role::workspace) text += info.accumulates ? ".copy" : ".rounding_error";
    else text += info.role == role::gradient ? ".gradient" : ".compute_copy";
  } else if (info.name.length > 0) text = p.text(info.name);
  else text = concat({"%", r.value});
  if (info.is_loop_carried()) text += concat({"@", name_of(r.where)});
  return text;
}

/// The extents, such as "[2, 4]".
inline std::string shape_text(shape const& s) {
  std::string text = "[";
  for (int i = 0; i < s.rank; ++i) text += concat({(i > 0 ? ", " : ""), s.extent[i]});
  return concat({text, "]"});
}

} // namespace detail

/// A program as text: one call or loop per line, loop bodies indented. To see what a pass does, print the program
/// before and after the pass.
///
///     loop block 3
///       %4 f64 [2, 4] = linear(%1@current, block.up.weight, block.up.bias)
///
/// The loop has 3 iterations; "at most 3": the loop skips iterations without a valid label. %4 is the value with index
/// 4, and %1@current is an instance of a loop-carried value (ref.hpp). An end without a loop is the line "end of no
/// loop".
inline std::string print(program const& p) {
  std::string text;
  std::string indent;
  for (auto const& n : p.nodes) {
    if (n.kind == node_kind::end) {
      if (indent.empty()) text += "end of no loop\n";
      else indent.resize(indent.size() - 2);
      continue;
    }
    text += indent;
    if (n.kind == node_kind::loop) {
      auto const& axis = p.axes[n.axis];
      text += concat({"loop ", p.text(axis.name), axis.rows.per_iteration > 0 ? " at most " : " ", axis.extent,
                      n.reversed ? " reversed\n" : "\n"});
      indent += "  ";
      continue;
    }
    for (int j = 0; j < n.outputs.size(); ++j) {
      auto const& info = p.values[n.outputs[j].value];
      text += concat({j > 0 ? ", " : "", detail::name_of_value(p, n.outputs[j]), " ", name_of(info.type), " ",
                      detail::shape_text(info.shape)});
    }
    text += concat({" = ", n.op->name, "("});
    for (int i = 0; i < n.inputs.size(); ++i)
      text += concat({(i > 0 ? ", " : ""), detail::name_of_value(p, n.inputs[i])});
    text += ")\n";
  }
  return text;
}

} // namespace constrain
