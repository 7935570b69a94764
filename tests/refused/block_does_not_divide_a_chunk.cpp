// refused: optimizer: an element of a state describes `got` elements of a parameter, but their number must divide
// diagnosis: refused, any, any, 1024, 100
// shows: block_does_not_divide_a_chunk
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int block = 128;
#else
constexpr int block = 100;
#endif

/// Has a state with one element for each block of a parameter.
struct with_blocks {
  struct hyper {};
  static constexpr void update(ct::update_rule& u) {
    auto const counts = u.state("counts", ct::shape((u.shape().elements() - 1) / block + 1), u.type(), 1, block);
    u.assign(counts, counts + counts);
    u.assign(u.parameter(), u.parameter() + u.gradient());
  }
};

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
ct::trainer<task, with_blocks> t; // <- here
