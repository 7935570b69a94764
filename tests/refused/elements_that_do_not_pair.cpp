// refused: and for an output of `expected` elements, of which `op` computes shards (the layout `needed`)
// diagnosis: refused, any, any, 16384, 1
// shows: elements_do_not_pair
// layouts: times, replicated, flat
// with MPI
#include "clip_policy.hpp"

/// gradient * factor.
struct times {
  static constexpr char const* name = "times";
#ifdef CORRECT
  static constexpr char const* layouts = "*, - -> *";
#else
  static constexpr char const* layouts = "* -> *"; // also of the factor, which is a single number
#endif
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
};
template <> struct constrain::kernel<times, ct::cpu> {
  static void run(ct::call const&, ct::tensor<float const>, ct::tensor<double const>, ct::tensor<float>) {}
};

struct scale_gradients : clip_policy {
  static constexpr ct::program pass(ct::program const& p, slot const&) {
    ct::builder out;
    out.program = p;
    auto const factor = ct::setting(ct::value{out, p.result("loss")}, "factor", 0.5);
    ct::for_each_gradient(out, [&](ct::value gradient) {
      out.call<times>({gradient.where(), factor.where()}, {gradient.where()});
    });
    return out.program;
  }
};

// The corrected program has many values: planning its memory takes many steps of a constant, which compilers limit.
using optimizer = ct::optimizer::adafactor_with_momentum;
template struct ct::entries<task, ct::policies<optimizer, ct::parallel::zero<3, 2>, scale_gradients>>; // <- here
