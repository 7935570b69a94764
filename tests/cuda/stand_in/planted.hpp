#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

namespace planted {

/// The error output of a program with a fault; "nothing" if the program succeeds.
template <class function> std::string said(function const& faulty) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  std::fflush(nullptr);
  auto const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(ends[0]);
    ::dup2(ends[1], 2);
    ::signal(SIGABRT, SIG_DFL); // not doctest's
    faulty();
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string all;
  char part[4096];
  for (ssize_t n; (n = ::read(ends[0], part, sizeof part)) > 0;) all.append(part, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  bool const well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return well ? "nothing" : all;
}

/// Checks that a fault is found, with this piece of a sentence.
#define FOUND(sentence, ...)                                                                                           \
  do {                                                                                                                 \
    auto const text = planted::said([&] { __VA_ARGS__; });                                                             \
    CAPTURE(text);                                                                                                     \
    CHECK(text.find(sentence) != std::string::npos);                                                                   \
  } while (false)

/// Starts a kernel of `blocks` x `threads`.
template <class... parameters, class... arguments>
cudaError_t start(cudaStream_t stream, dim3 blocks, dim3 threads, void (*kernel)(parameters...), arguments... a) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, a...);
}

/// Elements in device memory.
template <class T> class device_array {
public:
  explicit device_array(std::size_t count) : count_(count) { cudaMalloc(&data, count * sizeof(T)); }
  ~device_array() { cudaFree(data); }
  device_array(device_array const&) = delete;
  device_array& operator=(device_array const&) = delete;

  /// Element i, after all work.
  T operator[](std::size_t i) const {
    T value;
    cudaDeviceSynchronize();
    cudaMemcpy(&value, data + i, sizeof value, cudaMemcpyDeviceToHost);
    return value;
  }
  std::size_t size() const { return count_; }

  T* data = nullptr;

private:
  std::size_t count_;
};

class stream {
public:
  stream() { cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking); }
  ~stream() { cudaStreamDestroy(handle_); }
  stream(stream const&) = delete;
  stream& operator=(stream const&) = delete;
  operator cudaStream_t() const { return handle_; }

private:
  cudaStream_t handle_{};
};

class event {
public:
  event() { cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming); }
  ~event() { cudaEventDestroy(handle_); }
  event(event const&) = delete;
  event& operator=(event const&) = delete;
  operator cudaEvent_t() const { return handle_; }

private:
  cudaEvent_t handle_{};
};

/// to[i] = value, a thread an element.
template <class T> static __global__ void set_kernel(T* to, T value) {
  to[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
/// A kernel that is given nothing.
[[maybe_unused]] static __global__ void empty_kernel() {}

} // namespace planted
