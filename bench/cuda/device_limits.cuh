#pragma once

#include "../limits.hpp"
#include "event.cuh"

#include <constrain/base/bfloat16.hpp>
#include <constrain/device/cuda/gemm.cuh>
#include <constrain/device/cuda/start_kernel.cuh>
#include <constrain/device/cuda/stream.cuh>
#include <constrain/run/cuda_arena.cuh>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace constrain::bench {

/// The sizes of the measurements of a device.
struct sizes {
  std::int64_t stream = std::int64_t{1} << 30; // bytes of each array read or written: far more than any cache holds
  std::int64_t gemm = 8192;                    // rows and columns of the largest GEMM
  int rounds = 7, repeats = 10;                // see `device_seconds_of`
};
inline constexpr sizes tiny_sizes{.stream = 1 << 15, .gemm = 32, .rounds = 2, .repeats = 2};

struct alignas(16) four {
  float x[4];
};

// The loop bodies of the bandwidth measurements. Each access of a thread is 16 bytes.
struct copy_elements {
  four const* from;
  four* to;
  CT_HOST_DEVICE void operator()(std::int64_t i) const { to[i] = from[i]; }
};
struct read_elements {
  four const* from;
  four* sink; // never written, but the compiler cannot know that
  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto const v = from[i];
    if (v.x[0] + v.x[1] + v.x[2] + v.x[3] == 12345) sink[0] = v;
  }
};
struct update_elements {
  four *momentum, *weight; // both read and written
  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto m = momentum[i], w = weight[i];
    for (int k = 0; k < 4; ++k) m.x[k] *= 0.9f, w.x[k] -= 1e-3f * m.x[k];
    momentum[i] = m;
    weight[i] = w;
  }
};
/// Sets elements to random numbers, uniform in [-1, 1]. GEMMs would run faster on zeros.
template <class real> struct random_elements {
  real* to;
  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto x = static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    to[i] = static_cast<float>(static_cast<std::int32_t>(x >> 32)) * 0x1p-31f;
  }
};

/// A CUDA context with memory for measurements: three arrays of random numbers, each of `bytes` bytes.
template <class device> class laboratory {
public:
  explicit laboratory(std::int64_t bytes)
      : stream_(cuda_device()), bytes_(bytes), memory_(constrain::bytes(3 * bytes + reserve), stream_),
        context_(stream_, memory_.data() + 3 * bytes) {
    parameters_.context = &context_;
    call const c = make_call();
    for_elements(device{}, c, bytes / 4, random_elements<float>{array<float>(0)});
    for_elements(device{}, c, bytes / 2, random_elements<bfloat16>{array<bfloat16>(1)});
    for_elements(device{}, c, bytes / 4, random_elements<float>{array<float>(2)});
  }

  cudaStream_t stream() const { return stream_; }
  std::int64_t bytes() const { return bytes_; }
  template <class T> T* array(int i) const { return reinterpret_cast<T*>(memory_.data() + i * bytes_); }
  /// The call argument of kernels, with scratch memory for a GEMM.
  call make_call() const {
    call c{none_, parameters_};
    c.scratch = memory_.data() + 3 * bytes_ + device::parameter_bytes;
    return c;
  }

private:
  static constexpr std::int64_t reserve = device::parameter_bytes + gemm_workspace;

  cuda_stream stream_;
  std::int64_t bytes_;
  cuda_arena memory_;
  cuda_context context_;
  attributes none_;
  step_parameters parameters_;
};

/// A GEMM of a plan.
struct plan_gemm {
  std::string name;
  transpose a = transpose::no, b = transpose::no;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldc = 0; // elements from one stored row of A, or C, to the next; 0: the rows are contiguous
  bool adds = false;             // true: adds to an fp32 result; false: overwrites a bf16 result
  double seconds = 0;
  std::vector<double> algorithms{}; // the seconds of each cuBLASLt algorithm (gemm_algorithms.cuh)

  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
  double rate() const { return flops() / seconds; }
  gemm_extents extents() const { return {.m = m, .n = n, .k = k, .lda = lda, .ldc = ldc}; }
  /// Elements of A, of B and of C, with the gaps between their rows.
  std::int64_t elements_of_a() const { return lda == 0 ? m * k : (a == transpose::yes ? k : m) * lda; }
  std::int64_t elements_of_b() const { return k * n; }
  std::int64_t elements_of_c() const { return m * (ldc == 0 ? n : ldc); }
  bool operator==(plan_gemm const&) const = default;
};

/// The bytes per array that a laboratory needs to measure these GEMMs and the device's limits.
inline std::int64_t array_bytes(std::vector<plan_gemm> const& gemms, sizes const& size) {
  auto most = std::max(size.stream, 4 * size.gemm * size.gemm);
  for (auto const& g : gemms)
    most =
        std::max({most, 2 * (g.elements_of_a() + g.elements_of_b()) + 512, (g.adds ? 4 : 2) * g.elements_of_c() + 256});
  return (most + 255) / 256 * 256;
}

/// The seconds of `run(left, right, result)`, a bf16 GEMM on random data. Successive calls use successive parts of
/// the arrays, so that caches do not keep small operands.
template <class device, class function>
double seconds_on_random_data(laboratory<device> const& here, plan_gemm const& g, sizes const& size,
                              function const& run) {
  auto const rounded = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
  auto const a = rounded(2 * g.elements_of_a()), b = rounded(2 * g.elements_of_b());
  auto const y = rounded((g.adds ? 4 : 2) * g.elements_of_c());
  auto const inputs = here.bytes() / (a + b), outputs = here.bytes() / y;
  return device_seconds_of(here.stream(), size.rounds, size.repeats, [&](int i) {
    auto const* const from = here.template array<std::byte>(1) + i % inputs * (a + b);
    auto* const to = here.template array<std::byte>(2) + i % outputs * y;
    run(reinterpret_cast<bfloat16 const*>(from), reinterpret_cast<bfloat16 const*>(from + a), to);
  });
}

/// The seconds of a GEMM as the library runs it.
template <class device> double seconds_of_gemm(laboratory<device> const& here, plan_gemm const& g, sizes const& size) {
  auto const c = here.make_call();
  return seconds_on_random_data(here, g, size, [&](bfloat16 const* left, bfloat16 const* right, std::byte* to) {
    if (g.adds) gemm(c, g.a, g.b, g.extents(), left, right, true, reinterpret_cast<float*>(to));
    else gemm(c, g.a, g.b, g.extents(), left, right, false, reinterpret_cast<bfloat16*>(to));
  });
}

/// Measures the limits of a device: the bandwidths of 16-byte accesses, and `flops`, the rate of a bf16 GEMM of
/// `size.gemm` rows and columns.
template <class device> limits measure_limits(laboratory<device> const& here, sizes const& size) {
  limits result;
  auto const count = size.stream / 16;
  auto const c = here.make_call();
  auto const rate = [&](int streams, auto const& f) {
    return streams * static_cast<double>(size.stream) /
           device_seconds_of(here.stream(), size.rounds, size.repeats,
                             [&](int) { for_elements(device{}, c, count, f); });
  };
  auto *const x = here.template array<four>(0), *const y = here.template array<four>(2);
  result.copy = rate(2, copy_elements{x, y});
  result.read = rate(1, read_elements{x, y});
  result.update = rate(4, update_elements{x, y});
  plan_gemm largest{"", transpose::no, transpose::yes};
  largest.m = largest.n = largest.k = size.gemm;
  result.flops = largest.flops() / seconds_of_gemm(here, largest, size);
  return result;
}

} // namespace constrain::bench
