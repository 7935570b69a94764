// In a layer, `line` is the line of the call in the layer, and `called_from` the line where the model applies the
// layer.
// refused: two extents that must be equal are `expected` and `got`
// shows: widths_differ
// diagnosis: refused, line, called_from, 128, 127
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int other = 128;
#else
constexpr int other = 127;
#endif

struct gated_mlp {
  int hidden;
  constexpr ct::value operator()(ct::value x) const {
    auto const gate = ct::silu(ct::linear("gate", x, hidden));
    auto const up = ct::linear("up", x, other);
    return ct::linear("down", gate * up, x.features()); // <- line
  }
};
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    x = x + ct::apply("mlp", gated_mlp{128}, x); // <- called_from
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
