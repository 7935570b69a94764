// refused: an operation, `op`, reads or overwrites a gradient, or reads the loss, before the last node that adds to it
// diagnosis: partial_sum_is_read, any, any, any, any
// layouts: clip_tensor, partial, replicated
// with MPI
#include "clip_policy.hpp"

struct clip_tensors : clip_policy {
  static constexpr ct::program pass(ct::program const& p, slot const&) {
#ifdef CORRECT
    return clip_gradients(p);
#else
    return ct::rewrite(p, [&](ct::builder& out, ct::node const& n, int) {
      out.program.add_node(n);
      if (n.kind != ct::node_kind::call || p.values[n.outputs[0].value].role != ct::role::gradient) return;
      out.call<clip_tensor>({n.outputs[0]}, {n.outputs[0]});
    });
#endif
  }
};

template struct ct::entries<task, ct::policies<ct::parallel::ddp, ct::accumulate<2>, clip_tensors>>; // <- here
