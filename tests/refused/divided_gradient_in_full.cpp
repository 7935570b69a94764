// refused: parallel::tensor: an operation, `op`, of the optimizer or of a policy's pass needs a gradient, parameter or
// diagnosis: refused, any, any, any, any
// shows: divided_tensor_is_read
// layouts: clip_tensor, divided, replicated
// with MPI
#include "clip_policy.hpp"

struct clip_tensors : clip_policy {
  static constexpr ct::program pass(ct::program const& p, slot const&) { return clip_gradients(p); }
};

#ifdef CORRECT
template struct ct::entries<task, ct::policies<ct::parallel::ddp, clip_tensors>>;
#else
template struct ct::entries<task, ct::policies<ct::parallel::tensor<2>, clip_tensors>>; // <- here
#endif
