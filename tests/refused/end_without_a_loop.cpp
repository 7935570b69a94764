// refused: a loop has no end, or an end has no loop; if your op or pass opens a loop, let it close the loop too
// diagnosis: loops_do_not_nest, 0, 0, 0, -1
// with MPI
#include "clip_policy.hpp"

struct clip_tensors : clip_policy {
  static constexpr ct::program pass(ct::program const& p, slot const&) {
    auto out = clip_gradients(p);
#ifndef CORRECT
    out.end_loop();
#endif
    return out;
  }
};

template struct ct::entries<task, ct::policies<clip_tensors>>; // <- here
