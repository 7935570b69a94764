// own error
// not for: clang
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

void use(ct::trainer<task>& t, ct::data::corpus const& corpus) {
#ifdef CORRECT
  ct::fit(t, corpus, {.steps = 5, .directory = "run"});
#else
  ct::fit(t, corpus, {.directory = "run", .steps = 5}); // <- here
#endif
}
