#pragma once

#include "constrain/device/cuda/check.cuh"
#include "constrain/device/kernel.hpp"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A CUDA device of this machine.
class cuda_device {
public:
  /// `index`: as in cudaSetDevice; -1: the current device of the host thread. Throws `error` if there is no such
  /// device, or if CUDA fails.
  explicit cuda_device(int index = -1) : index_(index) {
    int count = 0;
    auto const status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess && status != cudaErrorNoDevice)
      throw error({"device::cuda: CUDA could not find the devices: ", cudaGetErrorString(status),
                   "; check with nvidia-smi that the driver supports CUDA ", CUDART_VERSION / 1000,
                   ", or write device::cpu"});
    if (count == 0)
      throw error("device::cuda: there is no CUDA device here, or CUDA_VISIBLE_DEVICES hides it; run on a machine that "
                  "has one, change CUDA_VISIBLE_DEVICES, or write device::cpu");
    if (index < -1 || index >= count)
      throw error({"device::cuda: there is no CUDA device ", index, " here; ",
                   count == 1 ? std::string("set `.cuda_device` to 0")
                              : concat({"choose `.cuda_device` from 0 to ", count - 1})});
    if (index == -1) cuda_check(cudaGetDevice(&index_), "find the current device");
  }

  /// The device's index, as in cudaSetDevice.
  int index() const { return index_; }

  /// Compute capability, times ten: 90 is 9.0. Throws `error` if CUDA fails.
  int capability() const {
    int major = 0, minor = 0;
    cuda_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index_), "get the compute capability");
    cuda_check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index_), "get the compute capability");
    return 10 * major + minor;
  }

private:
  int index_;
};

/// Makes a device the current device of the host thread. The destructor makes the previous device current again.
class current_device {
public:
  /// Throws `error` if CUDA fails.
  explicit current_device(cuda_device device) : device_(device) {
    cuda_check(cudaGetDevice(&previous_), "find the current device");
    if (device.index() != previous_) cuda_check(cudaSetDevice(device.index()), "make a device the current one");
  }
  ~current_device() {
    if (device_.index() != previous_) cudaSetDevice(previous_);
  }
  /// The device that this object has made current.
  cuda_device device() const { return device_; }
  current_device(current_device const&) = delete;
  current_device& operator=(current_device const&) = delete;

private:
  cuda_device device_;
  int previous_ = 0;
};

/// A kernel that does nothing. Its attributes show for which architecture the loaded code was compiled.
template <class architecture> static __global__ void empty_kernel() {}

/// Throws `error` if `device` has a lower compute capability than `architecture` (an `sm<...>`), if `device` cannot run
/// the kernels of this translation unit, if these kernels were compiled for a lower capability than `architecture`, or
/// if CUDA fails. `device` must be the current device.
template <class architecture> void check_code_for(cuda_device device) {
  constexpr int required = architecture::capability;
  int const actual = device.capability();
  auto const version = [](int capability) { return concat({capability / 10, ".", capability % 10}); };
  auto const advice = actual < lowest_capability // no policy can name such a device
                          ? std::string("; choose another device as `.cuda_device`, or write device::cpu")
                          : concat({"; write sm<", actual, "> and compile for it"});
  if (actual < required)
    throw error({"device::cuda<sm<", required, ">>: CUDA device ", device.index(), " has compute capability ",
                 version(actual), ", but the policy needs ", version(required), advice});
  cudaFuncAttributes attributes{};
  auto const status = cudaFuncGetAttributes(&attributes, empty_kernel<architecture>);
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction)
    throw error({"device::cuda<sm<", required, ">>: this program has no code for CUDA device ", device.index(),
                 " of compute capability ", version(actual), " (", cudaGetErrorString(status),
                 "); compile it with -arch=sm_", actual, " (in CMake: CMAKE_CUDA_ARCHITECTURES=", actual, ")"});
  cuda_check(status, "load a kernel");
  if (attributes.ptxVersion < required)
    throw error({"device::cuda<sm<", required, ">>: the code of this program for CUDA device ", device.index(),
                 " was compiled for compute capability ", version(attributes.ptxVersion), ", but the policy needs ",
                 version(required), "; compile it with -arch=sm_", required,
                 " (in CMake: CMAKE_CUDA_ARCHITECTURES=", required, ")"});
}

} // namespace constrain
