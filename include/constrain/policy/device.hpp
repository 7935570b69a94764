#pragma once

#include "constrain/base/host_device.hpp" // CONSTRAIN_WITH_CUDA
#include "constrain/device/kernel.hpp"
#include "constrain/policy/rule.hpp"

/// The device whose memory and kernels a trainer uses.
namespace constrain::inline CONSTRAIN_VARIANT::device {

struct cpu;
template <class architecture> struct cuda;

} // namespace constrain::device

namespace constrain::inline CONSTRAIN_VARIANT::slot_of {

/// The slot of the device; is_slot.hpp explains the members of a slot.
struct device {
  bool is_cuda = false; // whether the device is a CUDA device
  int capability = 0;   // lowest compute capability that the program may run on: 90 is 9.0; 0 on the CPU
#if defined(CONSTRAIN_WITH_CUDA)
  bool compiled = true; // whether this translation unit can contain CUDA kernels
#else
  bool compiled = false;         // whether this translation unit can contain CUDA kernels
#endif
  friend constexpr bool operator==(device const&, device const&) = default;

  template <class...> using otherwise = constrain::device::cpu;
  template <class policy> struct named {
    using device = policy;
    using target = typename policy::target;
  };
  using examples = policy_list<constrain::device::cpu, constrain::device::cuda<sm<90>>>;
  using refused = policy_list<constrain::device::cuda<sm<75>>>;
  static constexpr bool free_on_resume = true;

  CONSTRAIN_RULE(one_device, (said<device> const& d), d.given <= 1,
                 "policies: more than one device is given; keep one, for example device::cpu");
  CONSTRAIN_RULE(cuda_is_compiled, (device const& d), !d.is_cuda || d.compiled,
                 "device::cuda: this file is not compiled by nvcc; name it .cu and link constrain::cuda, or write "
                 "device::cpu");
  CONSTRAIN_RULE(known_architecture, (device const& d), !d.is_cuda || d.capability >= lowest_capability,
                 "device::cuda<sm<n>>: the kernels need compute capability 8.0 or higher; write sm<80> or a higher n");
  using rules = rule_list<one_device, cuda_is_compiled, known_architecture>;
};

} // namespace constrain::slot_of

namespace constrain::inline CONSTRAIN_VARIANT::device {

/// The CPU of the host. The library's own kernels run on the threads of OpenMP or, without OpenMP, on one thread.
struct cpu {
  using slot = slot_of::device;
  using target = constrain::cpu;
  static constexpr slot value{};
};

/// A CUDA device. The run option `.cuda_device` selects it; the default is the current device of the thread that
/// constructs the trainer or the inference object. With a parallel policy, the default is device 0 for the first rank
/// on a node, device 1 for the second, and so on, modulo the number of devices that the rank sees; two ranks must not
/// have the same device. `architecture`: the lowest compute capability that the program may run on; `sm<90>` is 9.0,
/// and `sm<80>` is the lowest allowed. nvcc must compile the kernels for this capability or a higher one. Only files
/// that nvcc compiles may use this device.
template <class architecture> struct cuda {
  using slot = slot_of::device;
#if defined(CONSTRAIN_WITH_CUDA)
  using target = constrain::cuda<architecture>;
#else
  using target = constrain::cpu; // the rule `cuda_is_compiled` refuses this device; this avoids further errors
#endif
  static constexpr slot value = [] {
    slot cuda{.is_cuda = true}; // capability 0 if `architecture` has none; the rule `known_architecture` refuses it
    if constexpr (requires { architecture::capability; }) cuda.capability = architecture::capability;
    return cuda;
  }();
};

} // namespace constrain::device
