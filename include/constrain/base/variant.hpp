#pragma once

// The library's inline namespace, CONSTRAIN_VARIANT, names the compiler flags and macros that change the library's code
// on the host: the instruction set (one of the names below), OpenMP, the GEMM library, MPI, NCCL, NVTX, the debug mode
// and the string ABI of libstdc++, the assumptions of -ffast-math about arithmetic, and whether the companion library
// (see below) is used. Therefore, translation units with different names share no functions of the library. (The name
// does not depend on whether nvcc compiles the code: with nvcc, some functions differ in form, but not in their
// results. clang 14 defines macros only for -ffast-math, -ffinite-math-only and -fno-math-errno. With clang 14, the
// other flags that -ffast-math implies do not change the name. No compiler defines a macro for -ffp-contract: compile
// all translation units with the same -ffp-contract.)

#include <version>

#if defined(__AVX512BF16__) && defined(__AVX512FP16__) && defined(__FMA__)
#define CONSTRAIN_INSTRUCTION_SET avx512_fp16
#elif defined(__AVX512BF16__) && defined(__AVX512FP16__)
#define CONSTRAIN_INSTRUCTION_SET avx512_fp16_without_fma
#elif defined(__AVX512BF16__) && defined(__AVXVNNI__) && defined(__FMA__)
#define CONSTRAIN_INSTRUCTION_SET avx512_bf16_vnni
#elif defined(__AVX512BF16__) && defined(__AVXVNNI__)
#define CONSTRAIN_INSTRUCTION_SET avx512_bf16_vnni_without_fma
#elif defined(__AVX512BF16__) && defined(__FMA__)
#define CONSTRAIN_INSTRUCTION_SET avx512_bf16
#elif defined(__AVX512BF16__)
#define CONSTRAIN_INSTRUCTION_SET avx512_bf16_without_fma
#elif defined(__AVX512F__) && defined(__FMA__)
#define CONSTRAIN_INSTRUCTION_SET avx512
#elif defined(__AVX512F__)
#define CONSTRAIN_INSTRUCTION_SET avx512_without_fma
#elif defined(__AVX2__) && defined(__FMA__)
#define CONSTRAIN_INSTRUCTION_SET avx2_fma
#elif defined(__AVX2__)
#define CONSTRAIN_INSTRUCTION_SET avx2
#elif defined(__AVX__) && defined(__FMA__)
#define CONSTRAIN_INSTRUCTION_SET avx_fma
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
#define CONSTRAIN_VARIANT_GEMM _onednn
#elif defined(CONSTRAIN_WITH_CBLAS)
#define CONSTRAIN_VARIANT_GEMM _cblas
#else
#define CONSTRAIN_VARIANT_GEMM
#endif
#if defined(CONSTRAIN_WITH_MPI) && defined(CONSTRAIN_WITH_NCCL)
#define CONSTRAIN_VARIANT_PROCESSES _mpi_nccl
#elif defined(CONSTRAIN_WITH_MPI)
#define CONSTRAIN_VARIANT_PROCESSES _mpi
#else
#define CONSTRAIN_VARIANT_PROCESSES
#endif

// With CONSTRAIN_WITH_NVTX, runs on a CUDA device mark their calls for profilers.
#if defined(CONSTRAIN_WITH_NVTX)
#define CONSTRAIN_VARIANT_RANGES _nvtx
#else
#define CONSTRAIN_VARIANT_RANGES
#endif

// In libstdc++, the debug mode changes the layout of std::vector, and the old ABI changes the layout of std::string.
// <version> defines the macro of the ABI.
#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#if defined(_GLIBCXX_DEBUG)
#define CONSTRAIN_VARIANT_CONTAINERS _old_strings_debug
#else
#define CONSTRAIN_VARIANT_CONTAINERS _old_strings
#endif
#elif defined(_GLIBCXX_DEBUG)
#define CONSTRAIN_VARIANT_CONTAINERS _debug
#else
#define CONSTRAIN_VARIANT_CONTAINERS
#endif

#if defined(__FAST_MATH__)
#define CONSTRAIN_VARIANT_MATH _fast
#else
// Without -ffast-math, separate flags can still turn on individual parts of it.
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#define CONSTRAIN_VARIANT_FINITE _finite
#else
#define CONSTRAIN_VARIANT_FINITE
#endif
#if defined(__ASSOCIATIVE_MATH__)
#define CONSTRAIN_VARIANT_ORDER _associative
#else
#define CONSTRAIN_VARIANT_ORDER
#endif
#if defined(__RECIPROCAL_MATH__)
#define CONSTRAIN_VARIANT_DIVISION _reciprocal
#else
#define CONSTRAIN_VARIANT_DIVISION
#endif
#if defined(__NO_SIGNED_ZEROS__)
#define CONSTRAIN_VARIANT_ZEROS _unsigned_zeros
#else
#define CONSTRAIN_VARIANT_ZEROS
#endif
#if defined(__NO_MATH_ERRNO__)
#define CONSTRAIN_VARIANT_ERRNO
#else
#define CONSTRAIN_VARIANT_ERRNO _errno
#endif
#define CONSTRAIN_VARIANT_MATH                                                                                         \
  CONSTRAIN_JOIN(CONSTRAIN_VARIANT_FINITE, CONSTRAIN_VARIANT_ORDER, CONSTRAIN_VARIANT_DIVISION,                        \
                 CONSTRAIN_VARIANT_ZEROS, CONSTRAIN_VARIANT_ERRNO)
#endif

#define CONSTRAIN_JOINED(a, b, c, d, e) a##b##c##d##e
#define CONSTRAIN_JOIN(a, b, c, d, e) CONSTRAIN_JOINED(a, b, c, d, e)
#define CONSTRAIN_JOINED_ALL(a, b, c, d, e, f, g) a##b##c##d##e##f##g
#define CONSTRAIN_JOIN_ALL(a, b, c, d, e, f, g) CONSTRAIN_JOINED_ALL(a, b, c, d, e, f, g)
#define CONSTRAIN_FLAGS                                                                                                \
  CONSTRAIN_JOIN_ALL(CONSTRAIN_INSTRUCTION_SET, CONSTRAIN_VARIANT_THREADS, CONSTRAIN_VARIANT_GEMM,                     \
                     CONSTRAIN_VARIANT_PROCESSES, CONSTRAIN_VARIANT_RANGES, CONSTRAIN_VARIANT_CONTAINERS,              \
                     CONSTRAIN_VARIANT_MATH)

// Most functions that are neither templates nor constexpr, such as those for files, JSON, saved runs and logs, are
// defined in .ipp files. In header-only use, each header includes its .ipp file. The companion library
// (cmake/constrain-compiled.cmake) contains these functions and the kernels of the models (train/compiled_kernels.hpp),
// compiled for one set of flags; programs that link to it see only declarations. The macro CONSTRAIN_COMPILED names a
// file that defines CONSTRAIN_COMPILED_FOR_<flags>. A translation unit with different flags stays header-only.
#if defined(CONSTRAIN_COMPILED)
#include CONSTRAIN_COMPILED
#endif
#define CONSTRAIN_JOINED_TWO(a, b) a##b
#define CONSTRAIN_JOIN_TWO(a, b) CONSTRAIN_JOINED_TWO(a, b)
#if defined(CONSTRAIN_COMPILED) && CONSTRAIN_JOIN_TWO(CONSTRAIN_COMPILED_FOR_, CONSTRAIN_FLAGS)
#define CONSTRAIN_VARIANT CONSTRAIN_JOIN_TWO(CONSTRAIN_FLAGS, _compiled)
#if defined(CONSTRAIN_COMPANION_FUNCTIONS)
#define CONSTRAIN_DEFINITIONS 1
#else
#define CONSTRAIN_DEFINITIONS 0
#endif
#define CONSTRAIN_INLINE
#elif defined(CONSTRAIN_COMPANION_FUNCTIONS) || defined(CONSTRAIN_COMPANION_KERNELS)
#error "The companion library has flags that its users lack; give constrain_add_compiled a target with these flags."
#else
#define CONSTRAIN_VARIANT CONSTRAIN_FLAGS
#define CONSTRAIN_DEFINITIONS 1
#define CONSTRAIN_INLINE [[gnu::noinline]] inline // not inlined: .ipp functions are not time-critical
#endif

#define CONSTRAIN_TEXT_OF(x) #x
#define CONSTRAIN_TEXT(x) CONSTRAIN_TEXT_OF(x)

namespace constrain::inline CONSTRAIN_VARIANT {

/// The instruction set of this translation unit, such as "avx2_fma".
inline constexpr char const* instruction_set = CONSTRAIN_TEXT(CONSTRAIN_INSTRUCTION_SET);

} // namespace constrain::inline CONSTRAIN_VARIANT
