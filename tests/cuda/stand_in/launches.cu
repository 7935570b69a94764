// Faults of launches and in blocks, each of which the stand-in finds.

#include "cuda/stand_in/planted.hpp"

using namespace planted;

namespace {

struct large {
  char bytes[4088];
};
static_assert(on_host::fits_a_launch<large, float*> && !on_host::fits_a_launch<large, float*, char>);
static_assert(!on_host::fits_a_launch<char, float*, large>, "behind a char a pointer lies at 8");

static __global__ void divergent_kernel() {
  if (threadIdx.x != 3) __syncthreads();
}
/// y[i] = x[n - 1 - i], by way of shared memory; without its barrier if it is `wrong`.
template <bool wrong> static __global__ void reverse_kernel(int const* x, int* y) {
  __shared__ int values[64];
  values[threadIdx.x] = x[threadIdx.x];
  if constexpr (!wrong) __syncthreads();
  y[threadIdx.x] = values[63 - threadIdx.x];
}
/// Which block was the last one.
[[maybe_unused]] static __global__ void last_block_kernel(unsigned* last) { *last = blockIdx.x; }

template <bool wrong> bool reverses() {
  device_array<int> const x(64), y(64);
  for (int i = 0; i < 64; ++i) cudaMemcpy(x.data + i, &i, sizeof i, cudaMemcpyHostToDevice);
  start(nullptr, 1, 64, reverse_kernel<wrong>, x.data, y.data);
  bool right = true;
  for (int i = 0; i < 64; ++i) right = right && y[static_cast<std::size_t>(i)] == 63 - i;
  return right;
}

} // namespace

TEST_CASE("a grid and a block have limits") {
  FOUND("kernel empty_kernel: a grid of 1 x 65536 x 1 blocks", start(nullptr, dim3(1, 65536), 1, empty_kernel));
  FOUND("a grid of 1 x 1 x 65536 blocks", start(nullptr, dim3(1, 1, 65536), 1, empty_kernel));
  FOUND("a grid of 2147483648 x 1 x 1 blocks", start(nullptr, dim3(2147483648u), 1, empty_kernel));
  FOUND("a grid without a block", start(nullptr, dim3(0), 1, empty_kernel));
  FOUND("a block of 1025 x 1 x 1 threads", start(nullptr, 1, 1025, empty_kernel));
  FOUND("a block of 1 x 1 x 65 threads", start(nullptr, 1, dim3(1, 1, 65), empty_kernel));
  FOUND("a block without a thread", start(nullptr, 1, 0, empty_kernel));
  CHECK(start(nullptr, dim3(2, 3, 4), dim3(8, 2, 64), empty_kernel) == cudaSuccess);
  cudaDeviceSynchronize();
}

TEST_CASE("all threads of a block reach a barrier") {
  FOUND("__syncthreads: 1 of 64 threads of a block of divergent_kernel have ended",
        start(nullptr, 1, 64, divergent_kernel);
        cudaDeviceSynchronize());
}

#if !defined(ON_HOST_TSAN) // which finds these without looking at the result (races.cu)
TEST_CASE("a missing barrier gives wrong numbers") {
  CHECK(reverses<false>());
  CHECK(!reverses<true>());
}

TEST_CASE("blocks run in any order") {
  device_array<unsigned> const last(1);
  bool another = false;
  for (int i = 0; i < 20; ++i) {
    start(nullptr, 8, 1, last_block_kernel, last.data);
    another = another || last[0] != 7;
  }
  CHECK(another);
}
#endif

TEST_CASE("a dry run checks, and runs nothing") {
  on_host::dry = true;
  {
    device_array<float> const a(std::size_t{30} << 30); // 120 GiB of addresses
    float* beyond = nullptr;
    CHECK(cudaMalloc(&beyond, std::size_t{20} << 30) == cudaErrorMemoryAllocation);
    CHECK(start(nullptr, dim3(2147483647), 1024, set_kernel<float>, a.data, 1.0f) == cudaSuccess);
    FOUND("a grid of 1 x 65536 x 1 blocks", start(nullptr, dim3(1, 65536), 1, empty_kernel));
    FOUND("is not device memory", start(nullptr, 1, 1, set_kernel<float>, a.data + a.size() + 1, 1.0f));
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
  }
  on_host::dry = false;
}
