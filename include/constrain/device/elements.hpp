#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/device/kernel.hpp"

/// What an element-wise kernel needs of a device, so that it is written once for all of them:
///
///   for_elements(device, call, count, f)   calls f(i) for i in [0, count), in any order
///   parameters_on(device, call)               the step parameters, where f can read them
///
/// `f` is a named type with a CT_HOST_DEVICE call operator: nvcc takes no lambda's type for a kernel.
namespace constrain::inline CONSTRAIN_VARIANT {

/// f(i) for each i < count, on the CPU's threads.
template <class function> void for_elements(cpu, call const&, std::int64_t count, function const& f) {
  for_elements(count, f);
}
/// The step parameters where the device's kernels can read them.
inline step_parameters const* parameters_on(cpu, call const& c) { return &c.parameters; }

} // namespace constrain
