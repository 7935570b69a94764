#pragma once

#include "constrain/base/variant.hpp"

#include <sched.h>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The best of these instruction sets that this processor supports, named as in `instruction_set`: "avx512_bf16",
/// "avx512", "avx2_fma", "avx2", "avx_fma", "avx", "sse2". On processors other than x86-64, with compilers other than
/// g++ and clang, and in code compiled for more than AVX512-BF16 (AVX512-FP16, AVX-VNNI), the result is
/// `instruction_set`.
inline char const* processor_instruction_set() noexcept {
#if defined(__AVX512BF16__) && (defined(__AVX512FP16__) || defined(__AVXVNNI__)) // clang 14 cannot ask for these
  return instruction_set;
#elif defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512bf16")) return "avx512_bf16";
  if (__builtin_cpu_supports("avx512f")) return "avx512";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "avx2_fma";
  if (__builtin_cpu_supports("avx2")) return "avx2";
  if (__builtin_cpu_supports("avx") && __builtin_cpu_supports("fma")) return "avx_fma";
  if (__builtin_cpu_supports("avx")) return "avx";
  return "sse2";
#else
  return instruction_set;
#endif
}

/// Number of logical processors that the calling thread may run on (its affinity mask); 1 if the mask cannot be read.
inline int available_processors() noexcept {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

} // namespace constrain
