// refused: an operation, `op`, reads or overwrites a gradient, or reads the loss, before the last node that adds to it
// diagnosis: partial_sum_is_read, any, any, any, any
// layouts: clip_tensor, partial, replicated
// with MPI
#include "clip_policy.hpp"

struct read_loss : clip_policy {
  static constexpr ct::program pass(ct::program const& p, slot const&) {
#ifdef CORRECT
    ct::builder out;
    out.program = p;
    out.call<clip_tensor>({p.result("loss")});
    return out.program;
#else
    return ct::rewrite(p, [&](ct::builder& out, ct::node const& n, int) {
      out.program.add_node(n);
      if (n.kind == ct::node_kind::call && n.outputs[0] == p.result("loss")) out.call<clip_tensor>({p.result("loss")});
    });
#endif
  }
};

template struct ct::entries<task, ct::policies<ct::parallel::ddp, ct::accumulate<2>, read_loss>>; // <- here
