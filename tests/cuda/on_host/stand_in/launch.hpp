#pragma once

#include "stream.hpp"

#include <cstring>
#include <type_traits>
#include <utility>

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

namespace on_host {

/// Bytes of a kernel's arguments, each at a multiple of its alignment.
template <class... parameters> constexpr std::size_t argument_bytes() {
  std::size_t end = 0;
  ((end = (end + alignof(parameters) - 1) / alignof(parameters) * alignof(parameters) + sizeof(parameters)), ...);
  return end;
}
/// CUDA 12.1 and a device of compute capability 7.0 take more; the library does not ask for them.
template <class... parameters> inline constexpr bool fits_a_launch = argument_bytes<parameters...>() <= 4096;

/// Whether the host has memory at this address, of the program, its heap, a mapping or its stack.
inline bool is_host_memory(std::uintptr_t address) {
  if (address < 0x500000000000 || address >= 0x800000000000 || is_pinned(reinterpret_cast<void*>(address), 1))
    return false;
  return ::msync(reinterpret_cast<void*>(address / 4096 * 4096), 1, MS_ASYNC) == 0;
}

/// A pointer that a kernel is given: null, or into device memory that lives, at a multiple of its type's alignment.
template <class T> void check_pointer(char const* kernel, T* pointer, int device) {
  if (pointer == nullptr || is_pinned(pointer, 1)) return;
  device_memory::check(kernel, "a pointer among its arguments", pointer, 0, device);
  if constexpr (!std::is_void_v<T>)
    if (reinterpret_cast<std::uintptr_t>(pointer) % alignof(T) != 0)
      violated(kernel, text("a pointer among its arguments is not a multiple of ", alignof(T)),
               "an element lies at a multiple of its alignment");
}
/// An argument: a pointer, or a structure, in which every word that could be one is looked at.
template <class T> void check_argument(char const* kernel, T const& argument, int device) {
  if constexpr (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>) {
    check_pointer(kernel, argument, device);
  } else if constexpr (std::is_class_v<T> && sizeof(T) >= sizeof(void*)) {
    static_assert(std::is_trivially_copyable_v<T>, "a kernel's arguments are copied byte by byte");
#if defined(__GNUC__) && !defined(__clang__)
    auto copy = argument; // clang 14 cannot clear the padding, in which anything may be
    __builtin_clear_padding(&copy);
    for (std::size_t at = 0; at + sizeof(void*) <= sizeof(T); at += sizeof(void*)) {
      std::uintptr_t word = 0;
      std::memcpy(&word, reinterpret_cast<char const*>(&copy) + at, sizeof word);
      auto const* const found = device_memory::find(reinterpret_cast<void*>(word));
      if (found != nullptr && found->freed)
        violated(kernel, text("byte ", at, " of an argument points to freed memory"), "memory lives until cudaFree");
      if (found == nullptr && is_host_memory(word))
        violated(kernel, text("byte ", at, " of an argument points to host memory"), "a kernel reaches device memory");
    }
#endif
  }
}

/// The limits of CUDA for every compute capability from 5.0 on, but for clusters.
inline void check_launch(char const* kernel, cudaLaunchConfig_t const& c, void const* address) {
  auto const& grid = c.gridDim;
  auto const& threads = c.blockDim;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) violated(kernel, "a grid without a block", "a launch has a block");
  if (grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535)
    violated(kernel, text("a grid of ", grid.x, " x ", grid.y, " x ", grid.z, " blocks"),
             "a grid has at most 2147483647 x 65535 x 65535");
  auto const all = static_cast<std::uint64_t>(threads.x) * threads.y * threads.z;
  if (all == 0) violated(kernel, "a block without a thread", "a block has a thread");
  if (all > 1024 || threads.z > 64)
    violated(kernel, text("a block of ", threads.x, " x ", threads.y, " x ", threads.z, " threads"),
             "a block has at most 1024 threads, and at most 64 in z");
  auto const& symbols = program_symbols::of(address);
  if (symbols.shared_bytes > static_shared_bytes)
    violated(kernel, text(symbols.shared_bytes, " bytes of static shared memory"), "a block has at most 48 KiB");
  auto const given = dynamic_shared_limit.find(address);
  auto const limit = given == dynamic_shared_limit.end() ? static_shared_bytes - symbols.shared_bytes : given->second;
  if (c.dynamicSmemBytes > limit)
    violated(kernel, text(c.dynamicSmemBytes, " bytes of dynamic shared memory, and ", limit, " are allowed"),
             "more than 48 KiB need cudaFuncSetAttribute");
  if (symbols.shared_bytes + c.dynamicSmemBytes > largest_shared_bytes)
    violated(kernel, text(symbols.shared_bytes + c.dynamicSmemBytes, " bytes of shared memory"),
             "a block has at most 227 KiB");
}

} // namespace on_host

template <class... parameters, class... arguments>
cudaError_t cudaLaunchKernelEx(cudaLaunchConfig_t const* config, void (*kernel)(parameters...), arguments&&... a) {
  static_assert(on_host::fits_a_launch<parameters...>, "more arguments than a kernel may have");
  auto const* const address = on_host::address(kernel);
  auto const name = "kernel " + on_host::program_symbols::of(address).name;
  auto& s = on_host::stream_of_current_device("cudaLaunchKernelEx", config->stream);
  if (on_host::fails("cudaLaunchKernelEx")) return on_host::returned(cudaErrorLaunchOutOfResources);
  on_host::check_launch(name.c_str(), *config, address);
  on_host::work w;
  [&](parameters... each) {
    (on_host::check_argument(name.c_str(), each, s.device), ...);
    w.body = [=] { kernel(each...); };
  }(std::forward<arguments>(a)...);
  w.grid = config->gridDim;
  w.threads = config->blockDim;
  w.dynamic_shared = config->dynamicSmemBytes;
  w.kernel = address;
  on_host::submit(s, std::move(w));
  return cudaSuccess;
}
