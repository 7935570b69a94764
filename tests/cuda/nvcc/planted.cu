// Kernels with one fault each, PLANTED, which the checks beside this file find; 0: without a fault.

#include <cstdint>

namespace constrain {

template <class real> static __global__ void sound_kernel(real const* x, real* y) {
  auto const i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  y[i] = x[i] * real(0.1);
}

#if PLANTED == 1 // an array with an index that is known at run time only
static __global__ void array_kernel(float const* x, int const* order, float* y) {
  float values[8];
  for (int i = 0; i < 8; ++i) values[i] = x[i];
  y[threadIdx.x] = values[order[threadIdx.x]];
}
#elif PLANTED == 2 // more values than registers
static __global__ void __launch_bounds__(1024) spilling_kernel(float const* x, float* y) {
  float values[200];
#pragma unroll
  for (int i = 0; i < 200; ++i) values[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 200; ++i) y[i * 1024 + threadIdx.x] = values[199 - i];
}
#elif PLANTED == 3 // an atomic sum whose result is not used
static __global__ void sum_kernel(float const* x, float* y) { atomicAdd(y, x[threadIdx.x]); }
#elif PLANTED == 4 // an atomic counter in shared memory
static __global__ void counting_kernel(int* y) {
  __shared__ int next;
  if (threadIdx.x == 0) next = 0;
  __syncthreads();
  y[atomicAdd(&next, 1)] = static_cast<int>(threadIdx.x);
}
#elif PLANTED == 5 // a literal that is a double
template <class real> static __global__ void scaling_kernel(real const* x, real* y) {
  y[threadIdx.x] = x[threadIdx.x] * 0.1;
}
template __global__ void scaling_kernel<float>(float const*, float*);
#elif PLANTED == 6 // fp64 in a function that is not inlined
__noinline__ __device__ float scaled(float x) { return x * 0.1; }
static __global__ void calling_kernel(float const* x, float* y) { y[threadIdx.x] = scaled(x[threadIdx.x]); }
#elif PLANTED == 7 // a kernel that should not divide 64-bit integers
static __global__ void layer_norm_kernel(std::int64_t const* x, std::int64_t width, std::int64_t* y) {
  y[threadIdx.x] = x[threadIdx.x] / width;
}
#elif PLANTED == 8 // a kernel that should use tensor cores
template <class real> static __global__ void layer_norm_kernel(real const* x, real* y) {
  y[threadIdx.x] = x[threadIdx.x] + real(1);
}
#endif

} // namespace constrain

void start(float* x, double* y, int* z, std::int64_t* n) {
  using namespace constrain;
  sound_kernel<<<1, 32>>>(x, x);
  sound_kernel<<<1, 32>>>(y, y);
#if PLANTED == 1
  array_kernel<<<1, 32>>>(x, z, x);
#elif PLANTED == 2
  spilling_kernel<<<1, 1024>>>(x, x);
#elif PLANTED == 3
  sum_kernel<<<1, 32>>>(x, x);
#elif PLANTED == 4
  counting_kernel<<<1, 32>>>(z);
#elif PLANTED == 5
  scaling_kernel<<<1, 32>>>(x, x);
#elif PLANTED == 6
  calling_kernel<<<1, 32>>>(x, x);
#elif PLANTED == 7
  layer_norm_kernel<<<1, 32>>>(n, 3, n);
#elif PLANTED == 8
  layer_norm_kernel<<<1, 32>>>(x, x);
#endif
}
