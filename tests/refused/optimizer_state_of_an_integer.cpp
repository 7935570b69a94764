// refused: an optimizer's `template <class real> struct state` must be trivially copyable, and all its fields
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct counting {
  struct hyper {
    float learning_rate = 1e-3f;
  };
  template <class real> struct state {
#ifdef CORRECT
    real steps;
#else
    int steps;
#endif
  };
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, hyper const& h, ct::optimizer_step) {
    s.steps += 1;
    return weight - real(h.learning_rate) * gradient;
  }
};

static_assert(ct::op::state_fields<counting>() == 1); // <- here
