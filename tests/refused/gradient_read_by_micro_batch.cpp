// refused: an operation reads or overwrites a gradient, or reads the loss, before the last node that adds to it, so the
// diagnosis: partial_sum_is_read, any, any, any, any
#define CONSTRAIN_WITH_MPI // nothing is linked, and mpi.h is not needed
#include <constrain/model/gpt2.hpp>
#include <constrain/model/objective/causal_lm.hpp>
#include <constrain/train/entries.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

struct clip_tensor {
  static constexpr char const* name = "clip_tensor";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
};

struct clip_nothing;
struct clipping {
  bool clips = false;
  friend constexpr bool operator==(clipping const&, clipping const&) = default;
  template <class...> using otherwise = clip_nothing;
  using rules = ct::rule_list<>;
};
struct clip_nothing {
  using slot = clipping;
  static constexpr slot value{};
};
struct clip_tensors {
  using slot = clipping;
  static constexpr slot value{.clips = true};
  static constexpr auto after = ct::pass_name::differentiated;
  static constexpr ct::program pass(ct::program const& p, slot const&) {
#ifdef CORRECT
    ct::builder out;
    out.program = p;
    ct::for_each_gradient(out,
                          [&](ct::value gradient) { out.call<clip_tensor>({gradient.where()}, {gradient.where()}); });
    return out.program;
#else
    return ct::rewrite(p, [&](ct::builder& out, ct::node const& n, int) {
      out.program.add_node(n);
      if (n.kind != ct::node_kind::call || p.values[n.outputs[0].value].role != ct::role::gradient) return;
      out.call<clip_tensor>({n.outputs[0]}, {n.outputs[0]});
    });
#endif
  }
};

template <> struct constrain::kernel<clip_tensor, ct::cpu> {
  static void run(ct::call const&, ct::tensor<float const>, ct::tensor<float>) {}
};

template struct ct::entries<task, ct::policies<ct::parallel::ddp, ct::accumulate<2>, clip_tensors>>; // <- here
