// refused: run: this op has no kernel for this device and these operands
// shows: [with op=op::flash_attention, device=cuda<sm<90>>,
// not for: gnu clang
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 64, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
#ifdef CORRECT
using trainer = ct::trainer<task, ct::device::cuda<ct::sm<90>>, ct::attention::reference>;
#else
using trainer = ct::trainer<task, ct::device::cuda<ct::sm<90>>, ct::attention::flash>;
#endif

void use(trainer& t, ct::batch const& b) {
  t.step(b), t.predict(b.inputs); // <- here
}
