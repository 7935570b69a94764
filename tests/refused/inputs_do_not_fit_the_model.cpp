// refused: task: the model has `got` inputs (0 also stands for more than eight), but its call operator does not take
// shows: inputs_do_not_fit_the_model
// diagnosis: refused, 0, 0, 0, 2
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
#ifdef CORRECT
  static constexpr ct::port_spec inputs[] = {
      {.name = "tokens"}, {.name = "segments"}, {.name = "topic", .each = ct::per::sequence}};
#else
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "segments"}};
#endif
  constexpr ct::value operator()(ct::value tokens, ct::value segments, ct::value topic) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64}) +
                   ct::embedding("segment", segments, {.vocabulary = 2, .width = 64});
    return ct::linear("head",
                      ct::mean(x, ct::axis::tokens) + ct::embedding("topic", topic, {.vocabulary = 3, .width = 64}), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 2, .tokens = 16}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
