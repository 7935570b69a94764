// refused: fit: a callback's on_step must be `void on_step(ct::fit_context& c)`;
// shows: c.last is the step's result, and c.stop() ends the run
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 16, .vocabulary = 256, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 1}>;

struct watching {
#ifdef CORRECT
  void on_step(ct::fit_context& c) { loss = c.last.loss; }
#else
  bool on_step(ct::step_result const& r) { return loss > r.loss; }
#endif
  double loss = 0;
};

void use(ct::trainer<task>& t, ct::data::corpus const& corpus) {
  watching w;
  ct::fit(t, corpus, {.steps = 1}, w); // <- here
}
