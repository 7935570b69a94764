#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/device/kernel.hpp"
#if defined(CONSTRAIN_WITH_CUDA)
#include "constrain/device/cuda/start_kernel.cuh"
#endif

/// Functions with one overload per kernel tag (`cpu` below, `cuda<>` in device/cuda/start_kernel.cuh), so that an
/// element-wise kernel is written once for all devices:
///
///   for_elements(device, call, count, f)            calls f(i) for i in [0, count), in any order
///   map_elements(device, call, count, f, y, x...)   sets y[i] = f(x[i]...) for i in [0, count)
///   parameters_on(device, call)                     the device address of the step parameters, for reads by `f`
///
/// `call`: the first argument of the op's kernel. If `count` is not positive, nothing happens. `y` may be one of the
/// arrays `x`. On a CUDA device, the first two only enqueue a kernel, and throw `error` if the launch fails. `f` is an
/// object of a named type with a CT_HOST_DEVICE call operator: without --extended-lambda, nvcc does not accept a lambda
/// as a kernel's argument. The `f` of `map_elements` may have a member function `begin`, which can read values from the
/// device's memory into `f`. It is called before the first element, on a copy of `f`: once per call on the CPU, once
/// per thread on a CUDA device. If it returns false, y keeps its values.
namespace constrain::inline CONSTRAIN_VARIANT {

/// Calls f(i) for i in [0, count), vectorized, on up to `thread_count()` threads. The calls must be independent and
/// must not throw.
template <class function> void for_elements(cpu, call const&, std::int64_t count, function const& f) {
  for_elements(count, f);
}
/// y[i] = f(x[i]...) for i in [0, count), vectorized, on up to `thread_count()` threads. `f` receives each x[i] as
/// `arithmetic<from>`: 16-bit elements as float. `f` must not throw. y may be one of the arrays x.
template <class function, class to, class... from>
void map_elements(cpu, call const&, std::int64_t count, function f, to* y, from const*... x) {
  if constexpr (requires { f.begin(); })
    if (!f.begin()) return;
  for_elements(count, [=](std::int64_t i) { y[i] = f(arithmetic<from>(x[i])...); });
}
/// The address of the step parameters, in host memory.
inline step_parameters const* parameters_on(cpu, call const& c) { return &c.parameters; }

} // namespace constrain
