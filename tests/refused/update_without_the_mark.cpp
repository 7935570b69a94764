// refused: calling a __host__ function
// not for: gnu clang
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
#define MARK CT_HOST_DEVICE
#else
#define MARK
#endif

struct descent {
  template <class real> struct state {};
  struct hyper {
    float learning_rate = 0.1f;
  };
  template <class real>
  MARK static real update(real weight, real gradient, state<real>&, hyper const& h, ct::optimizer_step) {
    return weight - static_cast<real>(h.learning_rate) * gradient;
  }
};

__global__ void update(float* weight, descent::hyper hyper, ct::optimizer_step step) {
  ct::op::update_element<descent>(hyper, step, 1.0f, *weight);
}
