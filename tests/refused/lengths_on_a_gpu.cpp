// refused: run: this op has no kernel for this device and these operands
// shows: [with op=op::attention, device=cuda<sm<90>>,
// not for: gnu clang
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct padded {
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "lengths", .each = ct::per::sequence}};
  constexpr ct::value operator()(ct::value tokens, ct::value lengths) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 12});
#ifdef CORRECT
    return ct::linear("head", ct::self_attention(x, {.heads = 2}), 7);
#else
    return ct::linear("head", ct::self_attention(x, lengths, {.heads = 2}), 7);
#endif
  }
};
using task = ct::task<padded{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>;
using trainer = ct::trainer<task, ct::device::cuda<ct::sm<90>>>;

void use(trainer& t, ct::batch const& b) {
  t.step(b), t.predict(b.inputs); // <- here
}
