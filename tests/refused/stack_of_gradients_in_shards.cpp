// refused: an operation, `op`, uses a stacked gradient, parameter or state without loops over all axes of the stack
// diagnosis: refused, any, any, any, any
// shows: stack_is_exchanged
// layouts: clip_tensor, flat, replicated
// with MPI
#include "clip_policy.hpp"

struct clip_tensors : clip_policy {
  static constexpr ct::program pass(ct::program const& p, slot const&) {
#ifdef CORRECT
    return clip_gradients(p);
#else
    ct::builder out;
    out.program = p;
    for (int v = 0; v < p.values.size(); ++v)
      if (p.values[v].role == ct::role::gradient) out.call<clip_tensor>({{v, ct::at::current}}, {{v, ct::at::current}});
    return out.program;
#endif
  }
};

template struct ct::entries<task, ct::policies<ct::parallel::zero<3, 2>, clip_tensors>>; // <- here
