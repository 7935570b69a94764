// refused: parallel::tensor: `expected` ranks can divide no layer and no vocabulary; no other layer may use a
// diagnosis: refused, any, any, 3, 0
// shows: no_features_to_divide
// with MPI
#include <constrain/model/objective/causal_lm.hpp>
#include <constrain/op/embedding/embedding.hpp>
#include <constrain/op/linear/linear.hpp>
#include <constrain/train/entries.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 8});
    return ct::linear("head", ct::linear("up", x, 16), 7);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
#ifdef CORRECT
constexpr int ranks = 2;
#else
constexpr int ranks = 3;
#endif
template struct ct::entries<task, ct::policies<ct::parallel::tensor<ranks>>>; // <- here
