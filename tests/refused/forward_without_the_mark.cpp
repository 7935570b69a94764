// refused: calling a __host__ function
// not for: gnu clang
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
#define MARK CT_HOST_DEVICE
#else
#define MARK
#endif

struct halved {
  static constexpr char const* name = "halved";
  template <class real> MARK static real forward(real x) { return x / 2; }
  template <class real> CT_HOST_DEVICE static real gradient(real, real, real dy) { return dy / 2; }
};

__global__ void apply(float* x) { *x = ct::forward_of<halved>{}(*x); }
