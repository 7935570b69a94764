// refused: optimizer: the type, or the one that it wraps, has no `template <class real> struct state`; write one
// shows: composition<descent>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

struct descent {
  struct hyper {
    float learning_rate = 1e-3f;
  };
#ifdef CORRECT
  template <class real> struct state {};
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>&, hyper const& h, ct::optimizer_step) {
    return weight - real(h.learning_rate) * gradient;
  }
#else
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, hyper const& h, ct::optimizer_step) {
    return weight - real(h.learning_rate) * gradient;
  }
#endif
};

ct::trainer<task, descent> t; // <- here
