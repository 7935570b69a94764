// refused: fit: the argument after the options is not a callback; pass a function [&](ct::step_result const& r) { ... }
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 16, .vocabulary = 256, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 1}>;

struct watching {
#ifdef CORRECT
  void on_evaluation(ct::fit_context& c) { loss = c.validation->loss; }
#else
  void on_validation(ct::fit_context& c) { loss = c.validation->loss; }
#endif
  double loss = 0;
};

void use(ct::trainer<task>& t, ct::data::corpus const& corpus) {
  ct::fit(t, corpus, {.steps = 1}, watching{}); // <- here
}
