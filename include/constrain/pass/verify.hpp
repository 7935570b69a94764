#pragma once

#include "constrain/pass/partial_sums.hpp"
#include "constrain/pass/written_values.hpp"
#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Checks the invariants that every pass must keep:
/// - Loops nest.
/// - A value is written before it is read, and no other value is written over it in between.
/// - Every output has the type and shape that its op infers.
/// - Only an op that declares `reads_shards` reads shards, and only one that declares `reads_partial` reads values that
///   are not yet reduced over the ranks.
/// - Only an op that declares `guarded` (it writes nothing if the gradient norm is not finite) writes a parameter or an
///   optimizer state.
/// Returns the first violation, with the source line of the model's call; `why::nothing` if there is none.
constexpr diagnosis verify(program const& p) {
  if (!p.failure.ok()) return p.failure;
  int depth = 0;
  ref const loss = p.result("loss");
  bool partial[program::maximum_values]{}; // not yet reduced over the ranks
  detail::written_values written(p);
  for (auto const& n : p.nodes) {
    if (n.kind == node_kind::loop) ++depth;
    if (n.kind == node_kind::end) --depth;
    if (depth < 0) return {why::loops_do_not_nest, n.line, n.called_from, 0, depth};
    if (n.kind != node_kind::call) continue;
    operand_types inputs;
    for (auto const& input : n.inputs) {
      if (!written.contain(input.value)) {
        auto const reason = written.lost(input.value) ? why::overwritten_before_read : why::read_before_written;
        return {reason, n.line, n.called_from, 0, input.value};
      }
      if (partial[input.value] && !n.op->reads_partial)
        return {why::partial_sum_is_read, n.line, n.called_from, 0, input.value};
      if (p.values[input.value].shards > 1 && !n.op->reads_shards && !n.op->reads_partial)
        return {why::shard_is_read, n.line, n.called_from, 1, p.values[input.value].shards};
      inputs.push_back({p.values[input.value].type, p.values[input.value].shape});
    }
    auto const rule = n.op->infer(inputs, n.attributes);
    if (rule.reason != why::nothing) return rule.at(n.line, n.called_from);
    for (int j = 0; j < n.outputs.size(); ++j) {
      auto const& info = p.values[n.outputs[j].value];
      written.write(n.outputs[j].value);
      if (is_persistent(info.role) && !n.op->guarded)
        return {why::unguarded_write, n.line, n.called_from, 0, n.outputs[j].value};
      bool const of_one_rank = n.outputs[j] == loss || (info.role == role::gradient && detail::adds_contribution(n, j));
      partial[n.outputs[j].value] = p.distributed && of_one_rank && !n.op->reads_partial;
      bool const fits = j < rule.outputs.size() && rule.outputs[j] == operand_type{info.type, info.shape};
      if (!fits) return {why::shape_is_not_what_the_rule_says, n.line, n.called_from, info.shape.elements(), j};
    }
  }
  return depth == 0 ? diagnosis{} : diagnosis{why::loops_do_not_nest, 0, 0, 0, depth};
}

} // namespace constrain
