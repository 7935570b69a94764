// refused: the O of quantized<O>, states_in<type, O> or by_role<O> must be an
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

struct descent {
  struct hyper {
    float learning_rate = 1e-3f;
  };
  static constexpr bool state_signed[] = {true};
#ifdef CORRECT
  template <class real> struct state { real momentum; };
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, hyper const& h, ct::optimizer_step) {
    s.momentum += gradient;
    return weight - real(h.learning_rate) * s.momentum;
  }
#endif
};

ct::trainer<task, ct::optimizer::quantized<descent>> t; // <- here
