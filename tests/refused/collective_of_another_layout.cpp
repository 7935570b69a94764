// refused: an operation, `op`, reads a tensor that must be `needed`, but the ranks hold it as `held`
// diagnosis: wrong_layout, any, any, any, any
// layouts: op::all_reduce, replicated, partial
#define CONSTRAIN_WITH_MPI // nothing is linked, and mpi.h is not needed
#include "clip_policy.hpp"

struct reduce_twice : clip_policy {
  static constexpr auto after = ct::pass_name::sharded;
  static constexpr ct::program pass(ct::program const& p, slot const&) {
    ct::builder out;
    out.program = p;
    for (int v = 0; v < p.values.size(); ++v)
      if (p.values[v].role == ct::role::gradient && p.values[v].axes.empty())
#ifdef CORRECT
        out.call<clip_tensor>({{v, ct::at::current}}); // sums over the ranks are complete
#else
        out.call<ct::op::all_reduce>({{v, ct::at::current}}, {{v, ct::at::current}});
#endif
    return out.program;
  }
};

template struct ct::entries<task, ct::policies<ct::parallel::ddp, reduce_twice>>; // <- here
