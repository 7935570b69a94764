// refused: ct::causal_lm, ct::masked_lm: the model has no input with one entry per token; list one, with
// shows: no_input_per_token
#include <constrain/constrain.hpp>
namespace ct = constrain;

/// Logits of 4 tokens for each sequence.
struct model {
#ifdef CORRECT
  static constexpr ct::port_spec inputs[] = {{.name = "x", .type = ct::port_type::real, .features = 16}};
#else
  static constexpr ct::port_spec inputs[] = {
      {.name = "x", .type = ct::port_type::real, .each = ct::per::sequence, .features = 4 * 16}};
#endif
  constexpr ct::value operator()(ct::value x) const {
    return ct::linear("head", ct::reshape(x, ct::shape(x.shape().elements() / (4 * 16), 4, 16)), 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 4}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
