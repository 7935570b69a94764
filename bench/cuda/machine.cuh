#pragma once

#include "event.cuh"

#include <constrain/base/units.hpp>
#include <constrain/io/json_writer.hpp>

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <string>

namespace constrain::bench {

/// The device, and the versions of its driver and of the CUDA runtime.
struct machine {
  std::string name;
  int multiprocessors = 0, capability = 0, driver = 0, runtime = 0;
  std::int64_t l2 = 0;   // bytes
  double peak_flops = 0; // bf16 FLOP/s on dense matrices, from the vendor's data sheet; 0: unknown
  std::string file() const {
    std::string words;
    for (unsigned char c : name)
      if (std::isalnum(c)) words += static_cast<char>(std::tolower(c));
      else if (!words.empty() && words.back() != '-') words += '-';
    return words;
  }
};

/// The bf16 FLOP/s on dense matrices, from NVIDIA's data sheets; 0 for a device that is not listed here. The full name
/// must match: an H200 NVL and a MIG instance of an H200 are slower than an H200.
inline double data_sheet_flops(std::string const& name) {
  struct {
    char const* name;
    double flops;
  } const known[] = {{"NVIDIA H200", 989.4e12},         {"NVIDIA H100 80GB HBM3", 989.4e12},
                     {"NVIDIA A100-SXM4-40GB", 312e12}, {"NVIDIA A100-SXM4-80GB", 312e12},
                     {"NVIDIA A100-PCIE-40GB", 312e12}, {"NVIDIA A100 80GB PCIe", 312e12}};
  for (auto const& k : known)
    if (name == k.name) return k.flops;
  return 0;
}

/// The current device. Throws `error` if CUDA fails.
inline machine find_machine() {
  machine m;
#if defined(CONSTRAIN_ON_HOST)
  m.name = "stand-in on the host";
#else
  int device = 0;
  cuda_check(cudaGetDevice(&device), "find the current device");
  cudaDeviceProp p{};
  cuda_check(cudaGetDeviceProperties(&p, device), "get the device's properties");
  m.name = p.name;
  m.multiprocessors = p.multiProcessorCount;
  m.capability = 10 * p.major + p.minor;
  m.l2 = p.l2CacheSize;
  cuda_check(cudaDriverGetVersion(&m.driver), "get the driver's version");
  cuda_check(cudaRuntimeGetVersion(&m.runtime), "get the runtime's version");
#endif
  m.peak_flops = data_sheet_flops(m.name);
  return m;
}

/// The device's memory in bytes, as CUDA reports it.
struct device_memory {
  std::int64_t free = 0, all = 0;
};
inline device_memory memory_now() {
  std::size_t free = 0, all = 0;
  cuda_check(cudaMemGetInfo(&free, &all), "get the size of the free memory");
  return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(all)};
}

/// Returns whether a plan fits into the device's free memory. Prints the memory that the plan needs, the memory in use,
/// their sum, and the device's total.
inline bool fits(bytes plan, device_memory const& now) {
  bool const does = plan.count() <= now.free;
  std::printf("  memory: plan %.1f MiB + in use (context, other programs) %.1f MiB = %.1f of %.1f MiB; %s\n",
              plan.mebibytes(), bytes(now.all - now.free).mebibytes(), (plan + bytes(now.all - now.free)).mebibytes(),
              bytes(now.all).mebibytes(), does ? "it fits" : "IT DOES NOT FIT");
  return does;
}

inline void write(io::json_writer& json, machine const& m) {
  json.object("machine", io::json_layout::row).member("device", m.name).member("capability", m.capability);
  json.member("multiprocessors", m.multiprocessors).member("l2_bytes", m.l2).member("driver", m.driver);
  json.member("runtime", m.runtime).member("data_sheet_bf16_flops", m.peak_flops).end();
}

} // namespace constrain::bench
