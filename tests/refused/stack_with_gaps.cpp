// refused: uses `got` of a stack's tensors in one call, but there may be gaps between the tensors: another operation
// diagnosis: stack_has_gaps, any, any, 1, 3
// layouts: sum, replicated, replicated
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct sum {
  static constexpr char const* name = "sum";
  static constexpr unsigned accumulating = 0b1;
  static constexpr ct::inferred infer(ct::operand_types const&) { return ct::inferred::one(ct::dtype::f64, {}); }
};

struct no_sums;
struct summed {
  bool gradients = false;
  friend constexpr bool operator==(summed const&, summed const&) = default;
  template <class...> using otherwise = no_sums;
  using rules = ct::rule_list<>;
};
struct no_sums {
  using slot = summed;
  static constexpr slot value{};
};
/// Sums each gradient of each layer, then adds up these sums.
struct sums {
  using slot = summed;
  static constexpr slot value{.gradients = true};
  static constexpr auto after = ct::pass_name::differentiated;
  static constexpr ct::program pass(ct::program const& p, slot const&) {
    ct::builder out;
    out.program = p;
    ct::value_info info;
    info.type = ct::dtype::f64, info.role = ct::role::result, info.accumulates = true;
    ct::ref const total{out.program.add_value(info), ct::at::current};
    for (int v = 0; v < p.values.size(); ++v) {
      if (p.values[v].role != ct::role::gradient) continue;
      int const opened = out.open_all(p.values[v].axes);
      auto const of_layer = out.call<sum>({{v, ct::at::current}}).outputs[0];
#ifdef CORRECT
      out.call<sum>({of_layer}, {total});
#endif
      out.close(opened);
#ifndef CORRECT
      out.call<sum>({of_layer}, {total});
#endif
    }
    return out.program;
  }
};

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const y = ct::repeat("block", 3, x, [](ct::value z) { return z + ct::gelu(ct::linear("up", z, 64)); });
    return ct::linear("head", y, 97);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
template struct ct::entries<task, ct::policies<sums>>; // <- here
