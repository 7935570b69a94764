// Warp functions and asynchronous copies: calls that the stand-in allows, and faults that it finds.

#include "cuda/stand_in/planted.hpp"

#include <cuda_pipeline_primitives.h>
#include <sm_30_intrinsics.h>

using namespace planted;

namespace {

constexpr unsigned all_lanes = 0xFFFFFFFF;

// Each warp makes as many calls as its number, and then all of them meet.
static __global__ void uneven_kernel(int* to) {
  __shared__ int sums[4];
  int const warp = static_cast<int>(threadIdx.x / 32);
  int sum = static_cast<int>(threadIdx.x % 32);
  for (int i = 0; i < warp; ++i) sum = __shfl_sync(all_lanes, sum, 31);
  if (threadIdx.x % 32 == 3) sums[warp] = sum;
  __syncthreads();
  to[threadIdx.x] = sums[threadIdx.x % 4];
}

// The halves of a warp go different ways, and meet again.
static __global__ void halves_kernel(int* to) {
  int const lane = static_cast<int>(threadIdx.x);
  int x = lane;
  if (lane < 16) {
    for (int i = 0; i < 3; ++i) x = __shfl_xor_sync(0xFFFFu, x, 1);
  } else x = __shfl_down_sync(0xFFFF0000u, x, 1, 16);
  __syncwarp();
  to[lane] = __shfl_sync(all_lanes, x, (lane + 1) % 32);
}

static __global__ void absent_lane_kernel(int* to) {
  if (threadIdx.x != 7) to[threadIdx.x] = __shfl_sync(all_lanes, 1, 0);
}
static __global__ void outside_kernel(int* to) {
  if (threadIdx.x < 16) to[threadIdx.x] = __shfl_sync(0xFFFFu, 1, 20);
}
static __global__ void two_types_kernel(int* to) {
  if (threadIdx.x % 2 == 0) to[threadIdx.x] = __shfl_sync(all_lanes, 1, 1);
  else to[threadIdx.x] = static_cast<int>(__shfl_sync(all_lanes, 1.0, 2));
}
static __global__ void reads_apart_kernel(int* to) {
  lane_values const all(static_cast<int>(threadIdx.x));
  if (threadIdx.x < 7) to[threadIdx.x] = all[3];
  __syncwarp();
}
static __global__ void misaligned_kernel(char const* from) {
  alignas(16) __shared__ char to[64];
  __pipeline_memcpy_async(to, from + 8, 16);
}
// A copy that the block before left behind must not land in this one's memory.
static __global__ void leaves_copies_kernel(float const* from, float* to) {
  alignas(16) __shared__ float tile[32][4];
  for (int i = 0; i < 4; ++i) tile[threadIdx.x][i] = -1;
  __pipeline_commit();
  __pipeline_wait_prior(0);
  for (int i = 0; i < 4; ++i) to[(blockIdx.x * 32 + threadIdx.x) * 4 + i] = tile[threadIdx.x][i];
  __pipeline_memcpy_async(tile[threadIdx.x], from, 16);
}

} // namespace

TEST_CASE("warps make as many calls as they like between two barriers") {
  device_array<int> to(128);
  for (int round = 0; round < 10; ++round) {
    CHECK(start(nullptr, 1, 128, uneven_kernel, to.data) == cudaSuccess);
    for (std::size_t i = 0; i < 128; ++i) CHECK(to[i] == (i % 4 == 0 ? 3 : 31));
  }
}

TEST_CASE("parts of a warp may call by themselves") {
  device_array<int> to(32);
  CHECK(start(nullptr, 1, 32, halves_kernel, to.data) == cudaSuccess);
  for (int i = 0; i < 32; ++i) {
    int const lane = (i + 1) % 32;
    CHECK(to[static_cast<std::size_t>(i)] == (lane < 16 ? lane ^ 1 : lane == 31 ? 31 : lane + 1));
  }
}

TEST_CASE("faults of a warp are found") {
  device_array<int> to(32);
  auto const run = [&](void (*kernel)(int*)) { start(nullptr, 1, 32, kernel, to.data), cudaDeviceSynchronize(); };
  FOUND("__shfl_sync: 31 of 32 threads of a block of absent_lane_kernel wait for lanes that do not come",
        run(absent_lane_kernel));
  FOUND("reads lane 20 under the mask 65535; both must be in the mask", run(outside_kernel));
  FOUND("bytes instead of", run(two_types_kernel));
  FOUND("all lanes of the mask read together", run(reads_apart_kernel));
}

TEST_CASE("asynchronous copies are aligned, and end with their block") {
  device_array<char> from(64);
  FOUND("it copies 4, 8 or 16 bytes, from and to a multiple of as many",
        start(nullptr, 1, 1, misaligned_kernel, static_cast<char const*>(from.data));
        cudaDeviceSynchronize());
  device_array<float> seven(4), to(1280);
  start(nullptr, 1, 4, set_kernel<float>, seven.data, 7.0f);
  start(nullptr, 10, 32, leaves_copies_kernel, static_cast<float const*>(seven.data), to.data);
  cudaDeviceSynchronize();
  for (std::size_t i = 0; i < to.size(); ++i) CHECK(to[i] == -1);
}
