// refused: policies: the `name` of a policy or of an optimizer is not UTF-8
// shows: averaged<of_momentum>
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct of_momentum : ct::optimizer::momentum {
#ifdef CORRECT
  static constexpr char const* name = "\xc3\xa9lan";
#else
  static constexpr char const* name = "\xe9lan";
#endif
};

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
ct::trainer<task, ct::optimizer::averaged<of_momentum>> t; // <- here
