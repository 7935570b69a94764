// refused: generate: text is one token per byte and needs a model with `vocabulary` 256
// shows: vocabulary' 256, but this model's is different
// shows: 300
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 16, .vocabulary = 300, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 1}>;

void use(ct::trainer<task>& t, [[maybe_unused]] std::span<std::int32_t const> tokens) {
#ifdef CORRECT
  t.generate(tokens, 10);
#else
  t.generate("x", 10); // <- here
#endif
}
