#pragma once

#include "constrain/device/kernel.hpp"
#include "constrain/policy/slot.hpp"

/// Where a trainer's memory is and its kernels run.
namespace constrain::inline CONSTRAIN_VARIANT::device {

/// The host's processor, with all its threads.
struct cpu {
  using slot = slot_of::device;
  static constexpr char const* name = "device::cpu";
  using target = constrain::cpu;
  static constexpr bool is_cuda = false;
  static constexpr int capability = 0;
};

/// The current CUDA device; `architecture` is what its kernels are compiled for, for example `sm<90>`.
template <class architecture> struct cuda {
  using slot = slot_of::device;
  static constexpr char const* name = "device::cuda";
  using target = constrain::cuda<architecture>;
  static constexpr bool is_cuda = true;
  static constexpr int capability = architecture::capability;
};

} // namespace constrain::device
