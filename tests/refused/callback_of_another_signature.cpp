// refused: fit: the argument after the options is not a callback; pass a function [&](ct::step_result const& r) { ... }
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 16, .vocabulary = 256, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 1}>;

void use(ct::trainer<task>& t, ct::data::corpus const& corpus) {
#ifdef CORRECT
  ct::fit(t, corpus, {.steps = 1}, [](ct::step_result const& r) { return r.loss > 1; });
  ct::fit(t, corpus, {.steps = 1}, [](ct::fit_context& c) { c.stop(); });
#else
  ct::fit(t, corpus, {.steps = 1}, [](int step, double loss) { return loss > step; }); // <- here
#endif
}
