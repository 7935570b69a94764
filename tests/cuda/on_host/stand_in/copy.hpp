#pragma once

#include "stream.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace on_host {

inline void check_host_memory(char const* call, char const* what, void const* address) {
  if (address == nullptr || device_memory::find(address) != nullptr)
    violated(call, text(what, address == nullptr ? " is null" : " is device memory"),
             "this kind of copy has host memory there");
}
/// Checks that source and target of a copy are in the memory that its kind states.
inline void check_copy(char const* call, void const* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                       int device) {
  bool const to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool const from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (to_device) device_memory::check(call, "the target", to, bytes, device);
  else check_host_memory(call, "the target", to);
  if (from_device) device_memory::check(call, "the source", from, bytes, device);
  else check_host_memory(call, "the source", from);
}
inline void check_capture_of_copy(char const* call, on_host_stream const& s, bool pageable) {
  if (s.recording != nullptr && pageable)
    violated(call, "a capture has a copy of pageable memory", "a graph touches the memory whenever it runs: pin it");
}

inline std::int64_t pageable_copies = 0; // copies to or from pageable memory, in which CUDA may wait

/// A copy is a kernel of one thread. Pageable memory is read before the call returns, and written before it returns;
/// pinned memory when the copy runs.
inline void copy(char const* call, on_host_stream& s, void* to, void const* from, std::size_t bytes,
                 cudaMemcpyKind kind) {
  if (bytes == 0) return;
  if (kind == cudaMemcpyDefault) {
    bool const a = device_memory::find(to) != nullptr, b = device_memory::find(from) != nullptr;
    kind = a   ? (b ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
           : b ? cudaMemcpyDeviceToHost
               : cudaMemcpyHostToHost;
  }
  check_copy(call, to, from, bytes, kind, s.device);
  bool const reads_pageable = kind == cudaMemcpyHostToDevice && !is_pinned(from, bytes);
  bool const writes_pageable = kind == cudaMemcpyDeviceToHost && !is_pinned(to, bytes);
  check_capture_of_copy(call, s, reads_pageable || writes_pageable);
  pageable_copies += reads_pageable || writes_pageable ? 1 : 0;
  work w;
  if (reads_pageable && !dry) {
    auto const* const data = static_cast<char const*>(from);
    auto const staged = std::make_shared<std::vector<char> const>(data, data + bytes);
    w.body = [=] { std::memcpy(to, staged->data(), bytes); };
  } else {
    w.body = [=] { std::memcpy(to, from, bytes); };
  }
  submit(s, std::move(w));
  if (writes_pageable) finish(s);
}

} // namespace on_host

inline cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
  auto& s = on_host::stream_of("cudaMemcpyAsync", stream);
  if (on_host::fails("cudaMemcpyAsync")) return on_host::returned(cudaErrorLaunchFailure);
  on_host::copy("cudaMemcpyAsync", s, to, from, bytes, kind);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  on_host::not_in_capture("cudaMemcpy");
  if (on_host::fails("cudaMemcpy")) return on_host::returned(cudaErrorLaunchFailure);
  auto& s = on_host::stream_of("cudaMemcpy", nullptr);
  on_host::finish(s);
  on_host::copy("cudaMemcpy", s, to, from, bytes, kind);
  // From pageable memory, CUDA returns as soon as it has read the memory: the target may be written later.
  bool const may_return = on_host::device_memory::find(to) != nullptr && !on_host::is_pinned(from, bytes);
  if (!may_return) on_host::finish(s);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  auto& s = on_host::stream_of("cudaMemsetAsync", stream);
  if (on_host::fails("cudaMemsetAsync")) return on_host::returned(cudaErrorLaunchFailure);
  if (bytes == 0) return cudaSuccess;
  on_host::device_memory::check("cudaMemsetAsync", "the target", to, bytes, s.device);
  on_host::work w;
  w.body = [=] { std::memset(to, value, bytes); };
  on_host::submit(s, std::move(w));
  return cudaSuccess;
}

inline cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  on_host::not_in_capture("cudaMalloc");
  *memory = nullptr;
  ++on_host::allocations;
  if (on_host::fails("cudaMalloc")) return on_host::returned(cudaErrorMemoryAllocation);
  if (bytes == 0) return cudaSuccess;
  auto const device = on_host::current_device;
  auto const room = on_host::devices[static_cast<std::size_t>(device)].memory - on_host::device_memory::used(device);
  if (bytes <= room) *memory = on_host::device_memory::make(bytes, device, !on_host::dry);
  return on_host::returned(*memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}
template <class T> cudaError_t cudaMalloc(T** memory, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(memory), bytes);
}
/// Waits for all work of the device first.
inline cudaError_t cudaFree(void* memory) {
  on_host::not_in_capture("cudaFree");
  if (memory == nullptr) return cudaSuccess;
  on_host::finish_all();
  on_host::device_memory::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaMallocHost(void** memory, std::size_t bytes, unsigned = cudaHostAllocDefault) {
  on_host::not_in_capture("cudaMallocHost");
  if (on_host::fails("cudaMallocHost")) return on_host::returned(cudaErrorMemoryAllocation);
  ++on_host::allocations;
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  on_host::pinned_memory()[static_cast<char const*>(*memory)] = bytes;
  return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  on_host::not_in_capture("cudaFreeHost");
  if (on_host::pinned_memory().erase(static_cast<char const*>(memory)) == 0)
    on_host::violated("cudaFreeHost", "this address is not one that cudaMallocHost gave, or was freed before",
                      "memory is freed once, by its first address");
  on_host::finish_all();
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned) {
  if (on_host::fails("cudaHostRegister")) return on_host::returned(cudaErrorMemoryAllocation);
  if (!on_host::pinned_memory().try_emplace(static_cast<char const*>(memory), bytes).second)
    on_host::violated("cudaHostRegister", "this memory is registered", "memory is registered once");
  return cudaSuccess;
}
inline cudaError_t cudaHostUnregister(void* memory) {
  if (on_host::pinned_memory().erase(static_cast<char const*>(memory)) == 0)
    on_host::violated("cudaHostUnregister", "this memory is not registered", "it must have been registered");
  return cudaSuccess;
}
