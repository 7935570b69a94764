// refused: an operation, `op`, needs a tensor in the layout `needed`, but the ranks hold it in the layout `held`
// diagnosis: wrong_layout, any, any, any, any
// layouts: op::all_reduce, replicated, partial
// with MPI
#include "clip_policy.hpp"

struct reduce_twice : clip_policy {
  static constexpr auto after = ct::pass_name::sharded;
  static constexpr ct::program pass(ct::program const& p, slot const&) {
    ct::builder out;
    out.program = p;
    for (int v = 0; v < p.values.size(); ++v) {
      ct::ref const gradient{v, ct::at::current};
      if (p.values[v].role != ct::role::gradient || !p.values[v].axes.empty()) continue;
#ifdef CORRECT
      out.call<clip_tensor>({gradient}, {gradient});
#else
      out.call<ct::op::all_reduce>({gradient}, {gradient}); // the sum over the ranks is complete already
#endif
    }
    return out.program;
  }
};

template struct ct::entries<task, ct::policies<ct::parallel::ddp, reduce_twice>>; // <- here
