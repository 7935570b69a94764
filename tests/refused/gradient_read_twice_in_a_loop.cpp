// refused: an operation in a loop reads a full gradient, parameter or state that the loop also writes
// diagnosis: refused, any, any, any, any
// shows: loop_writes_what_it_reads
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

template <> struct constrain::kernel<clip_tensor, ct::cpu> {
  static void run(ct::call const&, ct::tensor<float const>, ct::tensor<float>) {}
};

template struct ct::entries<task, ct::policies<ct::parallel::zero<3, 2>, clip_tensors>>; // <- here
