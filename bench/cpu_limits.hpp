#pragma once

#include "limits.hpp"
#include "measure.hpp"

#include <constrain/device/cpu/arithmetic_peak.hpp>
#include <constrain/device/cpu/parallel.hpp>
#include <constrain/device/cpu/vector.hpp>
#include <constrain/run/host_arena.hpp>

#include <cstdint>
#include <cstring>

namespace constrain::bench {

namespace detail {

using lanes = constrain::detail::vector_of<float>;

inline float sum_of(float const* x, std::int64_t count) {
  constexpr int chains = 8;
  lanes::vector sum[chains]{};
  constexpr std::int64_t block = chains * lanes::lanes;
  for (std::int64_t i = 0; i + block <= count; i += block) {
#pragma GCC unroll 8
    for (int k = 0; k < chains; ++k) sum[k] += *reinterpret_cast<lanes::unaligned const*>(x + i + k * lanes::lanes);
  }
  for (int k = 1; k < chains; ++k) sum[0] += sum[k];
  float result = 0;
  for (int i = 0; i < lanes::lanes; ++i) result += sum[0][i];
  return result;
}

/// The fp32 operations per second of all threads together, by chains of multiply-adds. The chains run for some
/// hundredths of a second, about as long as a GEMM, to measure the sustained clock rate, not a burst.
inline double sustained_flops(std::int64_t threads, int rounds) {
  constexpr std::int64_t chain_rounds = 4'000'000;
  double operations = 0;
  auto const chains = [&] {
    parallel_for(threads, [&](std::int64_t thread) {
      auto const done = constrain::detail::multiply_add_chains<float>(chain_rounds);
      if (thread == 0) operations = done;
    });
  };
  chains();
  return static_cast<double>(threads) * operations / median_seconds_of(rounds, chains);
}

/// The bf16 operations per second of all threads together, by chains of vdpbf16ps; 0 if the program is not compiled for
/// it. One instruction does two multiply-adds in each of 16 lanes.
inline double sustained_bf16_flops([[maybe_unused]] std::int64_t threads, [[maybe_unused]] int rounds) {
#if defined(__AVX512BF16__)
  constexpr std::int64_t chain_rounds = 4'000'000;
  constexpr int chains = 12;
  auto const run = [&] {
    parallel_for(threads, [&](std::int64_t) {
      lanes::vector sum[chains] = {}, x = {}, y = {};
      for (std::int64_t round = 0; round < chain_rounds; ++round) {
#pragma GCC unroll 12
        for (int chain = 0; chain < chains; ++chain)
          asm volatile("vdpbf16ps %2, %1, %0" : "+v"(sum[chain]) : "v"(x), "v"(y));
      }
    });
  };
  run();
  return static_cast<double>(threads) * 2 * 2 * 16 * chains * chain_rounds / median_seconds_of(rounds, run);
#else
  return 0;
#endif
}

} // namespace detail

/// Measures the limits of the machine with all threads; `flops` is for fp32. Only the bytes that the program reads and
/// writes count. Cache lines that are fetched only to be overwritten do not count; `update` overwrites only bytes that
/// it has read.
inline limits measure_limits() {
  constexpr int rounds = 7;
  auto const threads = std::int64_t{thread_count()};
  float volatile factor = 0.999f, term = 0.001f, sink = 0; // volatile: the compiler cannot know the values
  float const f = factor, t = term;
  limits result;
  result.flops = detail::sustained_flops(threads, rounds);

  // Each array has about 256 MiB, more than most caches. Arrays whose distances are powers of two would compete for the
  // same cache sets and memory banks.
  constexpr std::int64_t count = (std::int64_t{64} << 20) + 5 * 1024 + 208;
  constexpr auto bytes_each = static_cast<double>(count * 4);
  host_arena arena(bytes(3 * count * 4));
  auto* const a = reinterpret_cast<float*>(arena.data());
  auto* const b = a + count;
  auto* const c = b + count;
  auto const over = [&](auto const& body) {
    parallel_for(threads, [&](std::int64_t i) { body(count * i / threads, count * (i + 1) / threads); });
  };
  over([=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) a[i] = 1, b[i] = 2, c[i] = 3;
  });
  result.copy = 2 * bytes_each / median_seconds_of(rounds, [&] {
                  over([=](std::int64_t begin, std::int64_t end) {
                    std::memcpy(a + begin, b + begin, static_cast<std::size_t>(end - begin) * 4);
                  });
                });
  result.triad = 3 * bytes_each / median_seconds_of(rounds, [&] {
                   over([=](std::int64_t begin, std::int64_t end) {
                     CONSTRAIN_SIMD
                     for (std::int64_t i = begin; i < end; ++i) a[i] = b[i] + f * c[i];
                   });
                 });
  result.update = 5 * bytes_each / median_seconds_of(rounds, [&] {
                    over([=](std::int64_t begin, std::int64_t end) {
                      CONSTRAIN_SIMD
                      for (std::int64_t i = begin; i < end; ++i) {
                        b[i] = f * b[i] + c[i];
                        a[i] -= t * b[i];
                      }
                    });
                  });
  result.read = bytes_each / median_seconds_of(rounds, [&] {
                  over([&](std::int64_t begin, std::int64_t end) {
                    if (detail::sum_of(b + begin, end - begin) == 0) sink = 1;
                  });
                });
  return result;
}

} // namespace constrain::bench
