// refused: fit: an inference object cannot be trained; pass a ct::trainer<task, policies...>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::fit_result use(ct::trainer<task>& t, ct::data::corpus const& corpus) {
#else
ct::fit_result use(ct::inference<task>& t, ct::data::corpus const& corpus) {
#endif
  return ct::fit(t, corpus, {.steps = 500}); // <- here
}
