// Races, each of which ThreadSanitizer finds where the CUDA threads are its fibers.

#include "cuda/stand_in/planted.hpp"

#include <constrain/device/cuda/ptx_twins.cuh>

#include <cstdint>

#if defined(ON_HOST_TSAN)

using namespace planted;

namespace {

/// y[i] = x[n - 1 - i], by way of shared memory; without its barrier if it is `wrong`.
template <bool wrong> static __global__ void reverse_kernel(int const* x, int* y) {
  __shared__ int values[64];
  auto const n = blockIdx.x * blockDim.x;
  values[threadIdx.x] = x[n + threadIdx.x];
  if constexpr (!wrong) __syncthreads();
  y[n + threadIdx.x] = values[63 - threadIdx.x];
}
/// Sends two numbers from thread 0 to all threads by way of one element of shared memory; without a barrier before its
/// second use if it is `wrong`.
template <bool wrong> static __global__ void sums_kernel(float* to) {
  __shared__ float sent;
  if (threadIdx.x == 0) sent = 1;
  __syncthreads();
  float const one = sent;
  if constexpr (!wrong) __syncthreads();
  if (threadIdx.x == 0) sent = 2;
  __syncthreads();
  if (threadIdx.x == 63) to[blockIdx.x] = one + sent;
}
/// Loads a matrix that the lanes of a warp have written into shared memory; without a barrier before or after it if it
/// is wrong.
template <bool before, bool after> static __global__ void matrices_kernel(std::uint32_t* to) {
  alignas(16) __shared__ std::uint16_t rows[32][8];
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 8; ++i) rows[threadIdx.x][i] = static_cast<std::uint16_t>(round + i);
    if constexpr (before) __syncwarp();
    std::uint32_t loaded[4];
    constrain::ptx::twin::load_matrices(loaded, rows[threadIdx.x]);
    to[threadIdx.x] = loaded[round];
    if constexpr (after) __syncwarp();
  }
}
/// Neighbouring threads write one element.
static __global__ void two_writers_kernel(int* to) { to[threadIdx.x / 2] = 1; }
/// A block reads what another one writes.
static __global__ void neighbour_kernel(int* to) {
  if (threadIdx.x == 0) to[blockIdx.x] = to[(blockIdx.x + 1) % gridDim.x];
}
static __global__ void all_blocks_kernel(int* to) { *to = 1; }
static __global__ void copy_kernel(int const* from, int* to) { *to = *from; }

struct two_streams {
  stream one, two;
  device_array<int> a{512}, b{512};
  device_array<float> sums{8};
  device_array<std::uint32_t> words{32};
};
/// Pinned memory that a copy to the device reads, and the host writes: after it waited, or not.
void write_pinned(bool waits) {
  two_streams on;
  void* memory = nullptr;
  cudaMallocHost(&memory, sizeof(int));
  auto* const pinned = static_cast<int*>(memory);
  *pinned = 1;
  cudaMemcpyAsync(on.a.data, pinned, sizeof(int), cudaMemcpyHostToDevice, on.one);
  if (waits) cudaStreamSynchronize(on.one);
  *pinned = 2;
  cudaDeviceSynchronize();
  cudaFreeHost(memory);
}

} // namespace

// Everything is made in the process that has the race: ThreadSanitizer sees nothing in the child of a process with
// fibers.
#define RACE(...)                                                                                                      \
  FOUND("data race", two_streams const on; auto const one [[maybe_unused]] = static_cast<cudaStream_t>(on.one);        \
        __VA_ARGS__; cudaDeviceSynchronize())

TEST_CASE("what is ordered is no race") {
  CHECK(said([] {
          two_streams const on;
          event const written;
          auto *const a = on.a.data, *const b = on.b.data;
          cudaMemsetAsync(a, 1, 512 * sizeof(int), on.one);
          start(on.one, 8, 64, reverse_kernel<false>, a, b);
          start(on.one, 8, 64, reverse_kernel<false>, b, a);
          start(on.one, 8, 64, sums_kernel<false>, on.sums.data);
          start(on.one, 1, 32, matrices_kernel<true, true>, on.words.data);
          cudaEventRecord(written, on.one);
          cudaStreamWaitEvent(on.two, written);
          start(on.two, 1, 1, copy_kernel, a, b);
          cudaStreamSynchronize(on.two);
          start(on.one, 1, 1, copy_kernel, b, a);
          cudaDeviceSynchronize();
        }) == "nothing");
  CHECK(said([] { write_pinned(true); }) == "nothing");
}

TEST_CASE("races in a block") {
  RACE(start(one, 1, 64, reverse_kernel<true>, on.a.data, on.b.data));
  RACE(start(one, 1, 64, two_writers_kernel, on.a.data));
  RACE(start(one, 1, 64, sums_kernel<true>, on.sums.data));
  RACE(start(one, 1, 32, matrices_kernel<false, true>, on.words.data));
  RACE(start(one, 1, 32, matrices_kernel<true, false>, on.words.data));
}

TEST_CASE("races between blocks") {
  RACE(start(one, 8, 32, neighbour_kernel, on.a.data));
  RACE(start(one, 8, 1, all_blocks_kernel, on.a.data));
}

TEST_CASE("races between streams, and with the host") {
  RACE(start(one, 1, 1, set_kernel<int>, on.a.data, 1); start(on.two, 1, 1, copy_kernel, on.a.data, on.b.data));
  RACE(start(one, 1, 1, set_kernel<int>, on.a.data, 1); cudaMemsetAsync(on.a.data, 0, 64, on.two));
  FOUND("data race", write_pinned(false));
}

#endif
