// refused: parallel::tensor: the ranks can divide no layer and no vocabulary; between two linear layers, each op must
// diagnosis: refused, any, any, any, any
// shows: nothing_is_divided
// layouts: halve, divided, replicated
// with MPI
#include <constrain/model/objective/causal_lm.hpp>
#include <constrain/op/embedding/embedding.hpp>
#include <constrain/op/linear/linear.hpp>
#include <constrain/train/entries.hpp>
namespace ct = constrain;

/// x / 2.
struct halve {
  static constexpr char const* name = "halve";
#ifdef CORRECT
  static constexpr char const* layouts = "-f -> -f";
#endif
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(ct::backward& b) { b.emit<halve>({b.gradient()}, {0}); }
};
template <> struct constrain::kernel<halve, ct::cpu> {
  static void run(ct::call const&, ct::tensor<float const>, ct::tensor<float>) {}
};

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 33, .width = 64});
    return ct::linear("head", ct::emit<halve>({ct::linear("up", x, 128)}), 33);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
template struct ct::entries<task, ct::policies<ct::parallel::tensor<2>>>; // <- here
