// refused: step takes a batch, not arrays; write t.step(t.batch(inputs, labels))
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

void use(ct::trainer<task>& t, std::vector<std::int32_t> const& inputs, std::vector<std::int32_t> const& labels) {
#ifdef CORRECT
  t.step(t.batch(inputs, labels));
#else
  t.step(inputs, labels); // <- here
#endif
}
