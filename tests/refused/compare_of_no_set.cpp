// refused: compare: each set of policies must be a ct::policies<...>; write for example ct::compare<task,
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

auto rows(ct::data::corpus const& corpus) {
#ifdef CORRECT
  return ct::compare<task, ct::policies<ct::precision::bf16>>(corpus);
#else
  return ct::compare<task, ct::precision::bf16>(corpus); // <- here
#endif
}
