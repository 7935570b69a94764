// refused: an operation, `op`, reads or overwrites a gradient, or reads the loss, before the last node that adds to it
// diagnosis: partial_sum_is_read, any, any, any, any
// layouts: squash, partial, replicated
// with MPI
#include "clip_policy.hpp"

/// tanh of each element. Element by element is not enough: the tanh of a sum is not the sum of the tanhs.
struct squash {
  static constexpr char const* name = "squash";
  static constexpr char const* layouts = "* -> *";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
};
template <> struct constrain::kernel<squash, ct::cpu> {
  static void run(ct::call const&, ct::tensor<float const>, ct::tensor<float>) {}
};

struct squash_gradients : clip_policy {
  static constexpr ct::program pass(ct::program const& p, slot const&) {
#ifdef CORRECT
    ct::builder out;
    out.program = p;
    ct::for_each_gradient(out, [&](ct::value gradient) { out.call<squash>({gradient.where()}, {gradient.where()}); });
    return out.program;
#else
    return ct::rewrite(p, [&](ct::builder& out, ct::node const& n, int) {
      out.program.add_node(n);
      if (n.kind != ct::node_kind::call || p.values[n.outputs[0].value].role != ct::role::gradient) return;
      out.call<squash>({n.outputs[0]}, {n.outputs[0]});
    });
#endif
  }
};

using zero = ct::parallel::zero<2, 2>;
template struct ct::entries<task, ct::policies<zero, ct::accumulate<2>, squash_gradients>>; // <- here
