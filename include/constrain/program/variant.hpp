#pragma once

// What of the compiler's flags changes the library's code: the instruction set, OpenMP, the provider of products, MPI. It
// is part of every name, an inline namespace, so that translation units with other flags share no function with this one.

#if defined(__AVX512BF16__)
#define CONSTRAIN_INSTRUCTION_SET avx512_bf16
#elif defined(__AVX512F__)
#define CONSTRAIN_INSTRUCTION_SET avx512
#elif defined(__AVX2__) && defined(__FMA__)
#define CONSTRAIN_INSTRUCTION_SET avx2_fma
#elif defined(__AVX2__)
#define CONSTRAIN_INSTRUCTION_SET avx2
#elif defined(__AVX__)
#define CONSTRAIN_INSTRUCTION_SET avx
#elif defined(__x86_64__)
#define CONSTRAIN_INSTRUCTION_SET sse2
#elif defined(__aarch64__)
#define CONSTRAIN_INSTRUCTION_SET neon
#else
#define CONSTRAIN_INSTRUCTION_SET scalar
#endif

#if defined(_OPENMP)
#define CONSTRAIN_VARIANT_THREADS _openmp
#else
#define CONSTRAIN_VARIANT_THREADS
#endif
#if defined(CONSTRAIN_WITH_ONEDNN)
#define CONSTRAIN_VARIANT_PRODUCTS _onednn
#elif defined(CONSTRAIN_WITH_CBLAS)
#define CONSTRAIN_VARIANT_PRODUCTS _cblas
#else
#define CONSTRAIN_VARIANT_PRODUCTS
#endif
#if defined(CONSTRAIN_WITH_MPI)
#define CONSTRAIN_VARIANT_PROCESSES _mpi
#else
#define CONSTRAIN_VARIANT_PROCESSES
#endif

#define CONSTRAIN_JOINED(a, b, c, d) a##b##c##d
#define CONSTRAIN_JOIN(a, b, c, d) CONSTRAIN_JOINED(a, b, c, d)
#define CONSTRAIN_VARIANT                                                                                              \
  CONSTRAIN_JOIN(CONSTRAIN_INSTRUCTION_SET, CONSTRAIN_VARIANT_THREADS, CONSTRAIN_VARIANT_PRODUCTS, CONSTRAIN_VARIANT_PROCESSES)
#define CONSTRAIN_TEXT_OF(x) #x
#define CONSTRAIN_TEXT(x) CONSTRAIN_TEXT_OF(x)

namespace constrain::inline CONSTRAIN_VARIANT {

/// The instruction set that this translation unit is compiled for: "avx2_fma".
inline constexpr char const* instruction_set = CONSTRAIN_TEXT(CONSTRAIN_INSTRUCTION_SET);

} // namespace constrain::inline CONSTRAIN_VARIANT
