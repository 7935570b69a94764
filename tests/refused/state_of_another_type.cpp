// refused: optimizer: `template <class real> struct state` has more than four fields, or a field whose type is not
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct counting {
#ifdef CORRECT
  template <class real> struct state { real momentum, steps; };
#else
  template <class real> struct state {
    real momentum;
    int steps;
  };
#endif
  struct hyper {
    float learning_rate = 0.1f;
  };
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, hyper const& h, ct::optimizer_step) {
    s.momentum += gradient, ++s.steps;
    return weight - static_cast<real>(h.learning_rate) * s.momentum / static_cast<real>(s.steps);
  }
};

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 64, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
static_assert(ct::trainer<task, counting>::memory.peak <= ct::mebibytes(700)); // <- here
