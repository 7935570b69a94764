// refused: an operation, `op`, between a trained parameter and the loss uses several tensors of a stack in one call
// diagnosis: refused, any, any, any, any
// shows: gradient_of_a_stack
// layouts: half_square, replicated, replicated
#include <constrain/constrain.hpp>

#include "penalty.hpp"

/// Adds the squares of the stacked weights to the loss.
struct penalty {
  using slot = penalized;
  static constexpr slot value{.any = true};
  static constexpr auto after = ct::pass_name::built;
  static constexpr ct::program pass(ct::program const& p, slot const&) {
    ct::ref const loss = p.result("loss");
    if (!loss) return p;
    return ct::rewrite(p, [&](ct::builder& out, ct::node n, int) {
      if (n.kind == ct::node_kind::call && n.outputs[0] == loss) {
        ct::value_info info;
        info.type = ct::dtype::f64, info.accumulates = true;
        ct::ref const total{out.program.add_value(info), ct::at::current};
        for (int v = 0; v < p.values.size(); ++v) {
          if (!ct::is_trainable(p.values[v].role) || p.values[v].axes.empty()) continue;
#ifdef CORRECT
          int const opened = out.open_all(p.values[v].axes);
#else
          int const opened = 0;
#endif
          out.call<half_square>({{v, ct::at::current}}, {total});
          out.close(opened);
        }
        n.inputs[0] = out.call<ct::op::add>({n.inputs[0], total}).outputs[0];
      }
      out.program.add_node(n);
    });
  }
};

template struct ct::entries<task, ct::policies<penalty>>; // <- here
