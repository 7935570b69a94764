#pragma once

// The part of the CUDA runtime that the library uses, on the host: with this folder in front of the include path a
// C++ compiler compiles the .cuh files, and every kernel runs, a block after another. A block's threads are fibers:
// each runs to the next __syncthreads(), in an order that is drawn anew every time, so that a kernel that lacks a
// barrier is likely to give wrong numbers. It proves indices, barriers and arithmetic; a GPU alone proves the rest.

#include <ucontext.h>

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(threads)
#define CUDART_VERSION 13000

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorMemoryAllocation = 2,
  cudaErrorNoDevice = 100,
  cudaErrorStreamCaptureUnsupported = 900
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor = 75, cudaDevAttrComputeCapabilityMinor = 76 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed = 2 };
inline constexpr unsigned cudaStreamNonBlocking = 1;

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace on_host {

using work = std::function<void()>;

/// The threads of one block.
class block {
public:
  static block& current() {
    static block b;
    return b;
  }

  void run(unsigned threads, work const& kernel) {
    kernel_ = &kernel;
    while (fibers_.size() < threads) fibers_.push_back(std::make_unique<fiber>());
    std::vector<unsigned> order(threads);
    for (unsigned i = 0; i < threads; ++i) order[i] = i;
    for (;;) {
      for (auto i = threads; i > 1; --i) std::swap(order[i - 1], order[random_() % i]);
      unsigned finished = 0;
      for (auto i : order) {
        threadIdx = dim3(i, 0, 0);
        running_ = fibers_[i].get();
        running_->finished = false;
        resume();
        finished += running_->finished ? 1 : 0;
      }
      if (finished == threads) return;
      if (finished != 0) {
        std::fprintf(stderr, "__syncthreads(): %u of %u threads have ended instead of reaching it\n", finished,
                     threads);
        std::abort();
      }
    }
  }
  void barrier() {
    auto const self = threadIdx;
    pause();
    threadIdx = self;
  }

private:
  struct fiber {
    std::vector<char> stack = std::vector<char>(128 << 10);
    std::jmp_buf place;
    bool started = false;
    bool finished = false;
  };

  // A fiber begins by way of its own context and changes by jumps, which need no call of the system.
  void resume() {
    if (_setjmp(scheduler_) != 0) return;
    if (running_->started) _longjmp(running_->place, 1);
    running_->started = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = running_->stack.data();
    context.uc_stack.ss_size = running_->stack.size();
    context.uc_link = nullptr;
    makecontext(&context, &block::live, 0);
    setcontext(&context);
  }
  void pause() {
    if (_setjmp(running_->place) == 0) _longjmp(scheduler_, 1);
  }
  static void live() {
    for (auto& b = current();;) {
      (*b.kernel_)();
      b.running_->finished = true;
      b.pause();
    }
  }

  work const* kernel_ = nullptr;
  std::vector<std::unique_ptr<fiber>> fibers_;
  fiber* running_ = nullptr;
  std::jmp_buf scheduler_;
  std::mt19937 random_{1};
};

/// What is being recorded instead of run; null most of the time.
inline std::vector<work>* recording = nullptr;
inline std::map<void const*, std::int64_t> launches; // of every kernel, by its address
inline std::int64_t gemms = 0;                       // calls of cublasLtMatmul
inline std::int64_t allocations = 0;

/// Launches and GEMMs so far.
inline std::int64_t all_launches() {
  auto all = gemms;
  for (auto const& kernel : launches) all += kernel.second;
  return all;
}

template <class... parameters> void const* address(void (*kernel)(parameters...)) {
  return reinterpret_cast<void const*>(kernel);
}

inline void start(work const& w) {
  if (recording != nullptr) recording->push_back(w);
  else w();
}

} // namespace on_host

inline void __syncthreads() { on_host::block::current().barrier(); }

struct on_host_stream {};
using cudaStream_t = on_host_stream*;
struct on_host_graph {
  std::vector<on_host::work> work;
};
using cudaGraph_t = on_host_graph*;
using cudaGraphExec_t = on_host_graph*;

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

template <class... parameters, class... arguments>
cudaError_t cudaLaunchKernelEx(cudaLaunchConfig_t const* config, void (*kernel)(parameters...), arguments... a) {
  static_assert((0 + ... + sizeof(parameters)) <= 4096, "more arguments than a kernel may have");
  on_host::start([=, grid = config->gridDim, threads = config->blockDim.x] {
    ++on_host::launches[on_host::address(kernel)];
    gridDim = grid;
    blockDim = dim3(threads);
    for (unsigned z = 0; z < grid.z; ++z)
      for (unsigned y = 0; y < grid.y; ++y)
        for (unsigned x = 0; x < grid.x; ++x) {
          blockIdx = dim3(x, y, z);
          on_host::block::current().run(threads, [&] { kernel(a...); });
        }
  });
  return cudaSuccess;
}

inline char const* cudaGetErrorString(cudaError_t) { return "an error"; }
inline cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr a, int) {
  return *value = a == cudaDevAttrComputeCapabilityMajor ? 9 : 0, cudaSuccess;
}
inline cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  ++on_host::allocations;
  *memory = bytes < (std::size_t{1} << 40) ? std::aligned_alloc(256, (bytes + 255) / 256 * 256) : nullptr;
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaFree(void* memory) { return std::free(memory), cudaSuccess; }
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  *free = *all = std::size_t{1} << 30;
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  if (on_host::recording != nullptr) return cudaErrorStreamCaptureUnsupported; // the library records kernels alone
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  if (on_host::recording != nullptr) return cudaErrorStreamCaptureUnsupported;
  std::memset(to, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) { return *s = new on_host_stream, cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t s) {
  delete s;
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return on_host::recording != nullptr ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  on_host::recording = new std::vector<on_host::work>;
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = new on_host_graph{std::move(*on_host::recording)};
  delete std::exchange(on_host::recording, nullptr);
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  ++on_host::allocations;
  *executable = new on_host_graph(*graph);
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t) {
  for (auto const& work : executable->work) work();
  return cudaSuccess;
}
