// refused: generate: the logits do not have the shape [sequences, tokens, classes]; return them in
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 256, .width = 64});
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;

void use(ct::trainer<task>& t, std::span<std::int32_t const> tokens) {
#ifdef CORRECT
  t.predict(tokens);
#else
  t.generate(tokens, 10); // <- here
#endif
}
