// refused: the name of a layer, a parameter, a setting or an optimizer state is not UTF-8 at its byte `got`
// shows: name_is_not_utf8
#include <constrain/constrain.hpp>
namespace ct = constrain;

/// Adds the sum of all gradients to the weights.
struct with_momentum {
  template <class real> struct state { real sum; };
  struct hyper {};
#ifdef CORRECT
  static constexpr char const* state_names[] = {"\xc3\xa9lan"};
#else
  static constexpr char const* state_names[] = {"\xe9lan"};
#endif
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, hyper const&, ct::optimizer_step) {
    s.sum += gradient;
    return weight + s.sum;
  }
};

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
ct::trainer<task, with_momentum> t; // <- here
