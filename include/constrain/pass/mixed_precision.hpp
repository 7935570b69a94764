#pragma once

#include "constrain/op/cast/cast.hpp"
#include "constrain/op/linear/linear.hpp"
#include "constrain/pass/refusals.hpp"
#include "constrain/pass/rewrite.hpp"
#include "constrain/policy/precision.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether `info` is a parameter of two or more dimensions. Kernels read such parameters in the compute type, and
/// vectors (norms, biases) in their stored type; for the biases of linear layers, see `mixed_precision`.
constexpr bool has_compute_copy(value_info const& info) { return is_parameter(info.role) && info.shape.rank >= 2; }

/// Whether value v is a parameter with at least one reader, and every reader reads v as the bias of a linear layer.
constexpr bool is_linear_bias(program const& p, int v) {
  if (!is_parameter(p.values[v].role) || p.values[v].shape.rank != 1) return false;
  bool is_read = false;
  for (auto const& n : p.nodes)
    for (int k = 0; k < n.inputs.size(); ++k) {
      if (n.inputs[k].value != v) continue;
      if (k != 2 || !calls(n, info_of<op::linear>)) return false;
      is_read = true;
    }
  return is_read;
}

namespace detail {

/// Whether the node `n` of `p` is a call whose inputs have different types and whose op promotes types.
constexpr bool mixes_types(program const& p, node const& n) {
  if (n.kind != node_kind::call || !n.op->promotes_types) return false;
  for (auto const& input : n.inputs)
    if (p.values[input.value].type != p.values[n.inputs[0].value].type) return true;
  return false;
}

} // namespace detail

/// Whether `mixed_precision` changes the program `p`. In fp32, it changes, for example, a program that adds an fp32
/// term to the loss, which is fp64.
constexpr bool needs_casts(program const& p, slot_of::precision const& precision) {
  if (!p.failure.ok()) return false;
  bool needs = p.values[p.result("logits").value].type != precision.compute;
  for (auto const& n : p.nodes) needs = needs || detail::mixes_types(p, n);
  return needs;
}

namespace detail {

/// Casts the inputs of the call `n` to the widest of their types.
constexpr void promote_inputs(builder& out, node& n) {
  auto widest = out.type_of(n.inputs[0]).type;
  for (auto const& input : n.inputs)
    if (auto const type = out.type_of(input).type; size_of(type) > size_of(widest)) widest = type;
  for (auto& input : n.inputs)
    if (out.type_of(input).type != widest) input = out.call<op::cast>({input}, {}, {.to = widest}, n.line).outputs[0];
}

/// If any operand of the GEMM that the call `n` computes has the type `compute`, casts the other operands to it. An op
/// that computes no GEMM has no `gemm_operands`.
constexpr void cast_gemm_operands(builder& out, node& n, dtype compute) {
  auto const is_operand = [&](int k) { return (n.op->gemm_operands >> k & 1u) != 0; };
  bool any_compute = false;
  for (int k = 0; k < n.inputs.size(); ++k)
    any_compute = any_compute || (is_operand(k) && out.type_of(n.inputs[k]).type == compute);
  for (int k = 0; any_compute && k < n.inputs.size(); ++k)
    if (auto const type = out.type_of(n.inputs[k]).type; is_operand(k) && is_real(type) && type != compute)
      n.inputs[k] = out.call<op::cast>({n.inputs[k]}, {}, {.to = compute}, n.line).outputs[0];
}

} // namespace detail

/// Mixed precision (Micikevicius et al. 2018): casts every parameter of two or more dimensions to `precision.compute`
/// once per run of the program, before the micro-batches, and lets all readers of the parameter read the copy. The
/// parameters keep their type: they are the master weights. `casts_biases`: whether the same happens to the biases of
/// linear layers (`is_linear_bias`). Without `precision.masters`, there is no copy: these parameters are stored in the
/// compute type. Floating-point inputs get the compute type, too, and so do all operands of a GEMM if one of them has
/// it. The types of all activations follow from the ops' shape rules. Floating-point labels keep their type, so that
/// ops that promote types compute a loss in fp32. In fp32, no parameter gets a copy: only the inputs of ops that
/// promote types can need a cast. Refused: a repeat whose body, after the casts, returns a type other than the type of
/// its argument.
constexpr program mixed_precision(program const& p, slot_of::precision const& precision, bool casts_biases = false) {
  auto const compute = precision.compute;
  if (!needs_casts(p, precision)) return p;
  auto out = without_nodes(p);
  auto& program = out.program;
  // The host converts floating-point inputs to `compute`, so that both operands of a matmul have the same type.
  for (auto const& port : program.ports)
    if (auto& type = program.values[port.where.value].type; port.kind == port_kind::input && is_real(type))
      type = compute;
  ref copy_of[program::maximum_values]{};
  for (int v = 0; v < p.values.size(); ++v) {
    bool const is_cast_bias = casts_biases && is_linear_bias(p, v);
    if ((!has_compute_copy(p.values[v]) && !is_cast_bias) || p.values[v].type == compute) continue;
    if (!precision.masters) {
      program.values[v].type = compute;
      continue;
    }
    auto info = p.values[v];
    info.type = compute;
    info.role = role::compute_copy;
    info.belongs_to = v;
    info.name = {};
    copy_of[v] = {program.add_value(info), at::current};
    out.call<op::cast>({{v, at::current}}, {copy_of[v]}, {.to = compute}, info.line);
  }
  rewrite_nodes(out, p, 0, p.nodes.size(), [&](builder&, node n, int) {
    for (auto& input : n.inputs)
      if (copy_of[input.value]) input = copy_of[input.value];
    if (n.kind == node_kind::call) {
      if (n.op->promotes_types) detail::promote_inputs(out, n);
      detail::cast_gemm_operands(out, n, compute);
      operand_types types;
      for (auto const& input : n.inputs) types.push_back(out.type_of(input));
      auto const inferred = n.op->infer(types, n.attributes);
      for (int j = 0; j < inferred.outputs.size(); ++j) {
        auto& type = program.values[n.outputs[j].value].type;
        // Every iteration of a repeat must return the type that the first iteration receives.
        if (n.outputs[j].where == at::next && inferred.outputs[j].type != type)
          program.fail(diagnosis_with<refusals::repeat_changes_the_type>(n.line, n.called_from, size_of(type),
                                                                         size_of(inferred.outputs[j].type)));
        type = inferred.outputs[j].type;
      }
    }
    program.add_node(n);
  });
  return program;
}

} // namespace constrain
