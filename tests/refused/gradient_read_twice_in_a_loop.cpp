// refused: an operation, `op`, in a loop needs a gradient, parameter or state in the layout `needed`
// diagnosis: refused, any, any, any, any
// shows: loop_writes_gathered_value
// layouts: clip_tensor, flat, replicated
// with MPI
#include "clip_policy.hpp"

struct clip_tensors : clip_policy {
  static constexpr ct::program pass(ct::program const& p, slot const&) {
    ct::builder out;
    out.program = p;
    int layers = -1;
    for (auto const& info : p.values)
      if (info.role == ct::role::gradient && !info.axes.empty()) layers = info.axes[0];
    out.open(layers, false);
    for (int v = 0; v < p.values.size(); ++v) {
      if (p.values[v].role != ct::role::gradient || !p.values[v].axes.empty()) continue;
      out.call<clip_tensor>({{v, ct::at::current}}, {{v, ct::at::current}});
#ifndef CORRECT
      out.call<clip_tensor>({{v, ct::at::current}}, {{v, ct::at::current}});
#endif
    }
    out.close();
    return out.program;
  }
};

template struct ct::entries<task, ct::policies<ct::parallel::zero<3, 2>, clip_tensors>>; // <- here
