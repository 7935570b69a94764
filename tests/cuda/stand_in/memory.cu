// Faults with memory, each of which the stand-in finds.

#include "cuda/stand_in/planted.hpp"

#include <cmath>
#include <vector>

using namespace planted;

namespace {

struct with_pointer {
  int count;
  float* to;
};
[[maybe_unused]] static __global__ void set_by_structure_kernel(with_pointer a) {
  if (threadIdx.x < static_cast<unsigned>(a.count)) a.to[threadIdx.x] = 1;
}
static __global__ void set_at_kernel(float* to, long i) { to[i] = 1; }
static __global__ void set_through_kernel(float* const* to) { **to = 1; }

/// The sum of shared memory that nobody wrote in this block, where an earlier block left ones.
static __global__ void stale_kernel(float* sum) {
  __shared__ float left[8];
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    float all = 0;
    for (float each : left) all += each;
    *sum = all;
  }
  __syncthreads();
  if (threadIdx.x == 0)
    for (float& each : left) each = 1;
}
static __global__ void large_kernel(float* to) {
  __shared__ float array[49152 / sizeof(float) + 1];
  array[threadIdx.x] = *to;
  __syncthreads();
  *to = array[threadIdx.x ^ 1u];
}
static __global__ void dynamic_kernel(float* to) {
  auto* const array = static_cast<float*>(on_host::dynamic_shared_memory());
  *to = array[0];
  array[20 * 1024 - 1] = 1;
}

} // namespace

TEST_CASE("the host cannot touch device memory") {
  device_array<float> const a(100);
  FOUND("the host: touches byte 8 of device memory", volatile float x = a.data[2]; (void)x);
  FOUND("the host: touches byte 12 of device memory", a.data[3] = 1);
  start(nullptr, 1, 100, set_kernel<float>, a.data, 2.0f);
  FOUND("the host: touches", a.data[3] = 1);
  CHECK(a[99] == 2);
  FOUND("the host: touches", a.data[3] = 1);
}

TEST_CASE("a kernel can touch no host memory") {
  float here = 0;
  FOUND("kernel set_kernel: a pointer among its arguments is not device memory",
        start(nullptr, 1, 1, set_kernel<float>, &here, 1.0f));
#if !defined(__clang__)
  std::vector<float> there(1000);
  FOUND("kernel set_by_structure_kernel: byte 8 of an argument points to host memory",
        start(nullptr, 1, 1, set_by_structure_kernel, with_pointer{1, there.data()}));
  FOUND("byte 8 of an argument points to host memory",
        start(nullptr, 1, 1, set_by_structure_kernel, with_pointer{1, &here}));
#endif
}

TEST_CASE("copies have their ends where their kind says, inside an allocation") {
  device_array<float> const a(10);
  std::vector<float> here(11);
  FOUND("cudaMemcpy: the target is not device memory", cudaMemcpy(&here[0], &here[1], 4, cudaMemcpyHostToDevice));
  FOUND("cudaMemcpy: the source is device memory", cudaMemcpy(a.data + 1, a.data, 4, cudaMemcpyHostToDevice));
  FOUND("cudaMemcpy: the target is device memory", cudaMemcpy(a.data + 1, a.data, 4, cudaMemcpyDeviceToHost));
  FOUND("has 44 bytes from byte 0 of an allocation of 40", cudaMemcpy(&here[0], a.data, 44, cudaMemcpyDeviceToHost));
  FOUND("has 8 bytes from byte 36 of an allocation of 40", cudaMemsetAsync(a.data + 9, 0, 8, nullptr));
}

TEST_CASE("a kernel stays inside the allocation, which it finds full of NaN") {
  device_array<float> const a(64);
  CHECK(std::isnan(a[5]));
  FOUND("a kernel or copy: touches byte 256 of an allocation of 256", start(nullptr, 1, 1, set_at_kernel, a.data, 64l);
        cudaDeviceSynchronize());
  FOUND("a kernel or copy: touches byte -4096", start(nullptr, 1, 1, set_at_kernel, a.data, -1024l);
        cudaDeviceSynchronize());
}

#if defined(ON_HOST_ASAN)
TEST_CASE("a call stays inside its operands, though there is more of the arena") {
  device_array<float> const arena(64);
  on_host::allow_only(arena.data, 256, {{arena.data + 16, 20}});
  CHECK(said([&] { start(nullptr, 1, 1, set_at_kernel, arena.data + 16, 4l), cudaDeviceSynchronize(); }) == "nothing");
  for (long const i : {-1, 5, 6, 40})
    FOUND("use-after-poison", start(nullptr, 1, 1, set_at_kernel, arena.data + 16, i); cudaDeviceSynchronize());
  on_host::allow_all(arena.data, 256);
  CHECK(said([&] { start(nullptr, 1, 1, set_at_kernel, arena.data + 16, 5l), cudaDeviceSynchronize(); }) == "nothing");
}
#endif

TEST_CASE("memory lives from cudaMalloc to cudaFree") {
  float* a = nullptr;
  cudaMalloc(&a, 400);
  device_array<float*> const pointer(1);
  cudaMemcpy(pointer.data, &a, sizeof a, cudaMemcpyHostToDevice);
  cudaFree(a);
  FOUND("cudaFree: this memory was freed before", cudaFree(a));
  FOUND("cudaFree: this address is not one that cudaMalloc gave", cudaFree(pointer.data + 1));
  FOUND("a pointer among its arguments was freed", start(nullptr, 1, 1, set_kernel<float>, a, 1.0f));
#if !defined(__clang__)
  FOUND("points to freed memory", start(nullptr, 1, 1, set_by_structure_kernel, with_pointer{1, a}));
#endif
  FOUND("a kernel or copy: touches device memory that was freed",
        start(nullptr, 1, 1, set_through_kernel, pointer.data);
        cudaDeviceSynchronize());
}

TEST_CASE("an element lies at a multiple of its alignment") {
  device_array<char> const a(100);
  FOUND("kernel set_kernel: a pointer among its arguments is not a multiple of 8",
        start(nullptr, 1, 1, set_kernel<double>, reinterpret_cast<double*>(a.data + 4), 1.0));
}

TEST_CASE("a device reaches its own memory") {
  on_host::devices.resize(2);
  device_array<float> const a(10);
  FOUND("is memory of device 0, not of 1", cudaSetDevice(1); start(nullptr, 1, 1, set_kernel<float>, a.data, 1.0f));
  on_host::devices.resize(1);
}

TEST_CASE("shared memory begins as NaN, and has a limit") {
  device_array<float> const sum(1);
  start(nullptr, 4, 1, stale_kernel, sum.data);
  CHECK(std::isnan(sum[0]));
  FOUND("kernel large_kernel: 49168 bytes of static shared memory", start(nullptr, 1, 1, large_kernel, sum.data));
  cudaLaunchConfig_t config{};
  config.dynamicSmemBytes = 80 << 10;
  FOUND("kernel dynamic_kernel: 81920 bytes of dynamic shared memory, and 49152 are allowed",
        cudaLaunchKernelEx(&config, dynamic_kernel, sum.data));
  FOUND("a block has at most 227 KiB",
        cudaFuncSetAttribute(dynamic_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10));
  cudaFuncSetAttribute(dynamic_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 80 << 10);
  cudaLaunchKernelEx(&config, dynamic_kernel, sum.data);
  CHECK(std::isnan(sum[0]));
}

TEST_CASE("what is not destroyed is known") {
  CHECK(on_host::still_alive() == "");
  CHECK(on_host::device_memory::count() == 0);
  {
    stream const s;
    event const e;
    device_array<int> const a(1);
    CHECK(on_host::still_alive() == "1 event, 1 stream");
    CHECK(on_host::device_memory::count() == 1);
  }
  CHECK(on_host::still_alive() == "");
  CHECK(on_host::device_memory::count() == 0);
}
