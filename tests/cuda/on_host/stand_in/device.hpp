#pragma once

#include "failing_calls.hpp"
#include "memory.hpp"
#include "symbols.hpp"
#include "types.hpp"

#include <utility>
#include <vector>

namespace on_host {

/// A device, as tests may set it. By default there is one, with the figures of an H200.
struct device_properties {
  int major = 9, minor = 0;             // compute capability
  std::size_t memory = 141'000'000'000; // bytes
  int multiprocessors = 132;
};
inline std::vector<device_properties> devices(1);
inline int current_device = 0;
/// The architecture that the kernels were compiled for.
inline int binary_version = 90, ptx_version = 90;
/// Whether there is code that the devices can run.
inline bool has_code = true;

inline constexpr std::size_t static_shared_bytes = 48 << 10; // of a block; and dynamic, unless a kernel asks for more
inline constexpr std::size_t largest_shared_bytes = 227 << 10;
inline std::map<void const*, std::size_t> dynamic_shared_limit; // what cudaFuncSetAttribute gave a kernel

inline cudaError_t last_error = cudaSuccess;
/// Keeps an error for cudaGetLastError.
inline cudaError_t returned(cudaError_t e) {
  if (e != cudaSuccess) last_error = e;
  return e;
}
inline bool is_device(int device) { return device >= 0 && device < static_cast<int>(devices.size()); }

} // namespace on_host

inline cudaError_t cudaGetLastError() { return std::exchange(on_host::last_error, cudaSuccess); }
inline cudaError_t cudaPeekAtLastError() { return on_host::last_error; }
inline char const* cudaGetErrorString(cudaError_t e) {
  switch (e) {
  case cudaSuccess: return "no error";
  case cudaErrorInvalidValue: return "invalid argument";
  case cudaErrorMemoryAllocation: return "out of memory";
  case cudaErrorInvalidConfiguration: return "invalid configuration argument";
  case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
  case cudaErrorInvalidDeviceFunction: return "invalid device function";
  case cudaErrorNoDevice: return "no CUDA-capable device is detected";
  case cudaErrorInvalidDevice: return "invalid device ordinal";
  case cudaErrorNoKernelImageForDevice: return "no kernel image is available for execution on the device";
  case cudaErrorInvalidResourceHandle: return "invalid resource handle";
  case cudaErrorNotReady: return "device not ready";
  case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
  case cudaErrorLaunchOutOfResources: return "too many resources requested for launch";
  case cudaErrorLaunchFailure: return "unspecified launch failure";
  case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
  case cudaErrorUnknown: return "unknown error";
  }
  return "unrecognized error code";
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (on_host::fails("cudaGetDeviceCount")) return on_host::returned(cudaErrorInsufficientDriver);
  *count = static_cast<int>(on_host::devices.size());
  return on_host::returned(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}
inline cudaError_t cudaGetDevice(int* device) {
  if (on_host::fails("cudaGetDevice")) return on_host::returned(cudaErrorUnknown);
  return *device = on_host::current_device, cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  if (on_host::fails("cudaSetDevice")) return on_host::returned(cudaErrorUnknown);
  if (!on_host::is_device(device)) return on_host::returned(cudaErrorInvalidDevice);
  return on_host::current_device = device, cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr a, int device) {
  if (on_host::fails("cudaDeviceGetAttribute")) return on_host::returned(cudaErrorUnknown);
  if (!on_host::is_device(device)) return on_host::returned(cudaErrorInvalidDevice);
  auto const& d = on_host::devices[static_cast<std::size_t>(device)];
  switch (a) {
  case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(on_host::static_shared_bytes); break;
  case cudaDevAttrMultiProcessorCount: *value = d.multiprocessors; break;
  case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
  case cudaDevAttrComputeCapabilityMajor: *value = d.major; break;
  case cudaDevAttrComputeCapabilityMinor: *value = d.minor; break;
  case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 228 << 10; break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(on_host::largest_shared_bytes); break;
  }
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  if (on_host::fails("cudaDeviceGetPCIBusId")) return on_host::returned(cudaErrorUnknown);
  if (!on_host::is_device(device) || length < 13) return on_host::returned(cudaErrorInvalidValue);
  std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(device) & 0xFFu);
  return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  if (on_host::fails("cudaMemGetInfo")) return on_host::returned(cudaErrorUnknown);
  *all = on_host::devices[static_cast<std::size_t>(on_host::current_device)].memory;
  *free = *all - on_host::device_memory::used(on_host::current_device);
  return cudaSuccess;
}
template <class... parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* to, void (*kernel)(parameters...)) {
  if (on_host::fails("cudaFuncGetAttributes") || !on_host::has_code)
    return on_host::returned(cudaErrorNoKernelImageForDevice);
  *to = {};
  to->sharedSizeBytes = on_host::program_symbols::of(reinterpret_cast<void const*>(kernel)).shared_bytes;
  to->maxThreadsPerBlock = 1024;
  to->ptxVersion = on_host::ptx_version;
  to->binaryVersion = on_host::binary_version;
  return cudaSuccess;
}
template <class... parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(parameters...), cudaFuncAttribute, int bytes) {
  if (on_host::fails("cudaFuncSetAttribute")) return on_host::returned(cudaErrorUnknown);
  if (bytes < 0 || static_cast<std::size_t>(bytes) > on_host::largest_shared_bytes)
    on_host::violated("cudaFuncSetAttribute", on_host::text(bytes, " bytes of dynamic shared memory"),
                      "a block has at most 227 KiB");
  on_host::dynamic_shared_limit[reinterpret_cast<void const*>(kernel)] = static_cast<std::size_t>(bytes);
  return cudaSuccess;
}
