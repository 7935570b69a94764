#pragma once

#include "cuda/tasks.hpp"

#include <constrain/device/cuda/start_kernel.cuh>
#include <constrain/device/cuda/stream.cuh>
#include <constrain/run/cuda_arena.cuh>

#include <cstdint>
#include <vector>

namespace constrain::test {

/// Runs one block of a kernel on arrays in device memory. Memory begins as NaN.
class probe {
public:
  probe() : stream_(cuda_device()), memory_(bytes(size), stream_), context_(stream_, memory_.data()) {
    memory_.fill(0, size, 0xFF);
  }

  /// Room for an array on the device, at a multiple of 256 bytes.
  template <class T> T* room(std::size_t count) {
    auto* const begin = reinterpret_cast<T*>(memory_.data() + used_);
    used_ += (static_cast<std::int64_t>(count * sizeof(T)) + 255) / 256 * 256;
    if (used_ > size) throw error("probe: the arrays do not fit");
    return begin;
  }
  template <class T> T* to_device(std::vector<T> const& x) {
    auto* const to = room<T>(x.size());
    memory_.write(offset(to), x.data(), static_cast<std::int64_t>(x.size() * sizeof(T)));
    return to;
  }
  template <class T> std::vector<T> from_device(T const* from, std::size_t count) {
    std::vector<T> x(count);
    memory_.read(offset(from), x.data(), static_cast<std::int64_t>(count * sizeof(T)));
    return x;
  }
  template <class... parameters, class... arguments>
  void run(int threads, void (*kernel)(parameters...), arguments... a) {
    cuda_launch(context_, dim3(1), threads, kernel, a...);
  }

  /// Calls the device's kernel of `op`.
  template <class op, class... operands> void call_kernel(operands const&... o) {
    step_parameters parameters;
    parameters.context = &context_;
    attributes const none{};
    kernel<op, target>::run(call{none, parameters}, o...);
  }

private:
  static constexpr std::int64_t size = 1 << 16;

  std::int64_t offset(void const* x) const { return static_cast<std::byte const*>(x) - memory_.data(); }

  cuda_stream stream_;
  cuda_arena memory_;
  std::int64_t used_ = 256;
  cuda_context context_;
};

} // namespace constrain::test
