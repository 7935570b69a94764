#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/cpu/processor.hpp"
#include "constrain/device/cpu/stopwatch.hpp"
#include "constrain/device/cpu/vector.hpp"
#include "constrain/device/math.hpp"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Runs twelve independent chains of multiply-adds in vector registers. `rounds`: multiply-adds per chain, at least 1.
/// Twelve chains hide the latency of the instruction. Returns the number of operations, two per multiply-add and vector
/// lane.
template <class real> double multiply_add_chains(std::int64_t rounds) {
  constexpr int chains = 12;
  // sum = factor * sum + term converges to 1. `volatile` keeps the compiler from folding the portable loop.
  real const volatile factor = real(0.999), term = real(0.001);
#if defined(__x86_64__) && defined(__GNUC__)
  // Inline assembly makes the measured rate independent of the compiler and its flags.
#define CONSTRAIN_CHAIN(type, regs, sum) "vfmadd213p" type " %%" regs "13, %%" regs "12, %%" regs sum "\n\t"
// clang-format off
#define CONSTRAIN_CHAINS(type, regs)                                                                                   \
  asm volatile(                                                                                                        \
      "vzeroall\n\tvbroadcasts" type " %1, %%" regs "13\n\tvbroadcasts" type " %2, %%" regs "12\n1:\n\t"               \
      CONSTRAIN_CHAIN(type, regs, "0") CONSTRAIN_CHAIN(type, regs, "1") CONSTRAIN_CHAIN(type, regs, "2")               \
      CONSTRAIN_CHAIN(type, regs, "3") CONSTRAIN_CHAIN(type, regs, "4") CONSTRAIN_CHAIN(type, regs, "5")               \
      CONSTRAIN_CHAIN(type, regs, "6") CONSTRAIN_CHAIN(type, regs, "7") CONSTRAIN_CHAIN(type, regs, "8")               \
      CONSTRAIN_CHAIN(type, regs, "9") CONSTRAIN_CHAIN(type, regs, "10") CONSTRAIN_CHAIN(type, regs, "11")             \
      "dec %0\n\tjnz 1b\n\tvzeroupper"                                                                                 \
      : "+r"(rounds)                                                                                                   \
      : "m"(term), "m"(factor)                                                                                         \
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",        \
        "xmm12", "xmm13", "xmm14", "xmm15")
  // clang-format on
  __builtin_cpu_init();
  auto const operations = [=](int bytes) { return 2.0 * chains * bytes / sizeof(real) * static_cast<double>(rounds); };
  if (__builtin_cpu_supports("avx512f")) {
    auto const operation_count = operations(64);
    if constexpr (std::is_same_v<real, float>) CONSTRAIN_CHAINS("s", "zmm");
    else CONSTRAIN_CHAINS("d", "zmm");
    return operation_count;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    auto const operation_count = operations(32);
    if constexpr (std::is_same_v<real, float>) CONSTRAIN_CHAINS("s", "ymm");
    else CONSTRAIN_CHAINS("d", "ymm");
    return operation_count;
  }
#undef CONSTRAIN_CHAINS
#undef CONSTRAIN_CHAIN
#endif
  using vectors = vector_of<real>;
  real volatile sink;
  [&]<int... chain>(std::integer_sequence<int, chain...>) {
    typename vectors::vector const zero{}, factors = zero + real(factor), terms = zero + real(term);
    typename vectors::vector sum[] = {zero + static_cast<real>(chain)...};
    for (std::int64_t round = 0; round < rounds; ++round) ((sum[chain] = sum[chain] * factors + terms), ...);
    sink = (sum[chain][0] + ...);
  }
  (std::make_integer_sequence<int, chains>{});
  return 2.0 * chains * vectors::lanes * static_cast<double>(rounds);
}

/// FLOP per second of the calling thread's CPU time: the best of 24 measurements. Returns 0 if fewer than a third of
/// the measurements are within 5 % of the best, or if the clock did not advance during a measurement.
template <class real> double chain_rate() {
  constexpr std::int64_t rounds = 200'000;
  constexpr int measurements = 24; // the clock frequency may still be low in the first measurements
  double rates[measurements], best = 0;
  for (auto& rate : rates) {
    thread_stopwatch const timer;
    auto const operations = multiply_add_chains<real>(rounds);
    rate = operations / timer.seconds();
    best = std::max(best, rate);
  }
  int near_best = 0;
  for (double const rate : rates) near_best += rate >= 0.95 * best ? 1 : 0;
  return math::finite(best) && 3 * near_best >= measurements ? best : 0;
}

} // namespace detail

/// Peak FLOP/s, in type `real` (float or double), of the threads that a parallel loop uses, measured with multiply-adds
/// in registers (two operations each): the best thread's rate times the smaller of `thread_count()` and
/// `available_processors()`. On x86-64, the function uses AVX-512, or AVX2 with FMA, if the processor has these
/// instructions, even if the code was compiled for another instruction set. The function measures CPU time, so
/// preemption by other programs does not lower the result; a program on the second hardware thread of the same core
/// does. The function returns 0 if `detail::chain_rate` returns 0 for any thread. It takes a few hundredths of a
/// second.
template <class real = float> double arithmetic_peak() {
  std::vector<double> rates(static_cast<std::size_t>(thread_count()));
  parallel_for(thread_count(),
               [&](std::int64_t thread) { rates[static_cast<std::size_t>(thread)] = detail::chain_rate<real>(); });
  double best = 0;
  for (double const rate : rates) {
    if (rate == 0) return 0;
    best = std::max(best, rate);
  }
  return best * static_cast<double>(std::min(thread_count(), available_processors()));
}

} // namespace constrain
