#pragma once

#include "constrain/op/round_to_tf32/round_to_tf32.hpp"
#include "constrain/pass/rewrite.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Emulates `precision::tf32` on the CPU: before each call, rounds to TF32 the fp32 inputs that the op declares as
/// operands of a GEMM (`op_info::gemm_operands`).
constexpr program round_operands(program const& p) {
  return rewrite(p, [](builder& out, node n, int) {
    if (n.kind == node_kind::call)
      for (int k = 0; k < n.inputs.size(); ++k) {
        if ((n.op->gemm_operands >> k & 1u) == 0 || out.type_of(n.inputs[k]).type != dtype::f32) continue;
        int const rounded = out.new_value(out.type_of(n.inputs[k]), role::workspace, n.line);
        out.call<op::round_to_tf32>({n.inputs[k]}, {{rounded, at::current}}, {}, n.line);
        n.inputs[k] = {rounded, at::current};
      }
    out.program.add_node(n);
  });
}

} // namespace constrain
