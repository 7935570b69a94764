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

using by_role = ct::optimizer::by_role<descent>;
using for_weights = by_role::of<ct::role::weight>;

__global__ void update(float* weight, by_role::prepared<float> prepared, ct::optimizer_step step) {
  descent::state<float> empty;
  *weight = for_weights::update<float>(*weight, 1.0f, empty, prepared, step);
}
