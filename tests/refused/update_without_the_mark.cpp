// refused: calling a __host__ function
// not for: gnu clang
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct descent {
  template <class real> struct state {};
  struct hyper {
    float learning_rate = 0.1f;
  };
#ifdef CORRECT
  template <class real> CT_HOST_DEVICE
#else
  template <class real>
#endif
  static real update(real weight, real gradient, state<real>&, hyper const& h, ct::optimizer_step) {
    return weight - static_cast<real>(h.learning_rate) * gradient;
  }
};

__global__ void update(float* weight, descent::hyper hyper, ct::optimizer_step step) {
  ct::op::update_element<descent>(hyper, step, 1.0f, *weight);
}
