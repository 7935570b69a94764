// refused: a value would have `got` dimensions, but may have at most `expected`
// shows: too_many_dimensions
// diagnosis: refused, any, any, 4, 5
#include <constrain/constrain.hpp>
namespace ct = constrain;

/// Logits of four dimensions: [sequences, tokens, 2, 8].
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 16});
    auto const s = x.shape();
    return ct::reshape(x, ct::shape(s.extent[0], s.extent[1], 2, 8));
  }
};

struct objective {
#ifdef CORRECT
  static constexpr int features = 0;
#else
  static constexpr int features = 3;
#endif
  static constexpr ct::port_spec labels[] = {
      {.name = "labels", .type = ct::port_type::real, .each = ct::per::logit, .features = features}};
  constexpr ct::value operator()(ct::value logits, ct::value labels) const {
    return ct::mean_squared_error{}(logits, labels);
  }
};

using task = ct::task<model{}, objective, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
