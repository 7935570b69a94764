// own error
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

ct::inference<task> use(ct::inference<task>& t) {
#ifdef CORRECT
  return std::move(t);
#else
  return t; // <- here
#endif
}
