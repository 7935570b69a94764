// refused: an operation reads or overwrites a gradient, or reads the loss, before the last node that adds to it
// diagnosis: partial_sum_is_read, any, any, any, any
#define CONSTRAIN_WITH_MPI // nothing is linked, and mpi.h is not needed
#include <constrain/model/gpt2.hpp>
#include <constrain/model/objective/causal_lm.hpp>
#include <constrain/train/entries.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

struct halve {
  static constexpr char const* name = "halve";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
};

struct halve_nothing;
struct halving {
  bool halves = false;
  friend constexpr bool operator==(halving const&, halving const&) = default;
  template <class...> using otherwise = halve_nothing;
  using rules = ct::rule_list<>;
};
struct halve_nothing {
  using slot = halving;
  static constexpr slot value{};
};
struct halve_first_gradient {
  using slot = halving;
  static constexpr slot value{.halves = true};
  static constexpr auto after = ct::pass_name::differentiated;
  static constexpr ct::program pass(ct::program const& p, slot const&) {
    int v = 0;
    while (p.values[v].role != ct::role::gradient || !p.values[v].axes.empty()) ++v;
#ifdef CORRECT
    int const last = p.nodes.size(); // behind the loop over micro-batches
#else
    int const last = p.nodes.size() - 1; // inside it
#endif
    ct::builder out;
    out.program = p;
    out.program.nodes.count = last;
    out.call<halve>({{v, ct::at::current}}, {{v, ct::at::current}});
    for (int i = last; i < p.nodes.size(); ++i) out.program.add_node(p.nodes[i]);
    return out.program;
  }
};

template <> struct constrain::kernel<halve, ct::cpu> {
  static void run(ct::call const&, ct::tensor<float const>, ct::tensor<float>) {}
};

template struct ct::entries<task, ct::policies<ct::accumulate<2>, ct::parallel::ddp, halve_first_gradient>>; // <- here
