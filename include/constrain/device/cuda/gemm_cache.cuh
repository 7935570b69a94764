#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/base/dtype.hpp"
#include "constrain/device/cuda/check.cuh"
#include "constrain/device/kernel.hpp"

#include <cstddef>
#include <map>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Describes a row-major GEMM C = op(A) op(B) + beta C, with op(A) [m, k], op(B) [k, n] and C [m, n]; op transposes its
/// matrix if the matrix's flag is true. A bias [n], of C's type, can be added to every row. The leading dimensions lda,
/// ldb and ldc are the numbers of elements from one stored row to the next.
struct gemm_shape {
  bool a_transposed = false, b_transposed = false;
  std::int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
  bool adds = false; // whether beta is 1; otherwise it is 0
  // types of the elements: of A and B, and of C
  dtype inputs = dtype::f32, output = dtype::f32;
  // alignment of the matrices' addresses, in bytes (`alignment_class`)
  int a_alignment = 256, b_alignment = 256, c_alignment = 256;
  int bias_alignment = 0; // the same for the bias's address; 0: there is no bias
  bool tf32 = false;      // whether fp32 operands are rounded to TF32

  friend constexpr auto operator<=>(gemm_shape const&, gemm_shape const&) = default;
};

/// Bytes of scratch memory for a cuBLASLt GEMM: the size that NVIDIA recommends for Hopper (cuBLAS documentation,
/// cublasSetWorkspace). cuBLASLt chooses an algorithm that needs at most this many. The address of the scratch memory
/// must be a multiple of 256.
inline constexpr std::int64_t gemm_workspace = 32 << 20;
static_assert(cuda<void>::alignment % 256 == 0);

namespace detail {

/// The cudaDataType_t of a floating-point type; CUDA_R_32F for every other type.
inline cudaDataType_t cuda_type(dtype type) {
  switch (type) {
  case dtype::f16: return CUDA_R_16F;
  case dtype::bf16: return CUDA_R_16BF;
  case dtype::f64: return CUDA_R_64F;
  default: return CUDA_R_32F;
  }
}

/// A cuBLASLt descriptor; null until a create function has filled it.
template <class handle, cublasStatus_t (*destroy)(handle)> class cublas_descriptor {
public:
  cublas_descriptor() = default;
  ~cublas_descriptor() {
    if (handle_ != nullptr) destroy(handle_);
  }
  cublas_descriptor(cublas_descriptor const&) = delete;
  cublas_descriptor& operator=(cublas_descriptor const&) = delete;
  /// The address of the handle, for create functions.
  handle* address() { return &handle_; }
  operator handle() const { return handle_; }

private:
  handle handle_{};
};
using cublas_layout = cublas_descriptor<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using cublas_operation = cublas_descriptor<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using cublas_preference = cublas_descriptor<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// A prepared cuBLASLt GEMM. Matrices of cuBLASLt are column-major by default, so the operands are swapped:
/// C^T = op(B)^T op(A)^T.
class cuda_gemm {
public:
  static constexpr int max_choices = 8; // `choice` must be below this number
  /// Prepares the GEMM with algorithm number `choice`, counted from 0, in the list that cuBLASLt's heuristic returns.
  /// The heuristic expects algorithm 0 to be the fastest. Throws `error` if cuBLASLt fails or its heuristic finds no
  /// algorithm.
  cuda_gemm(cublasLtHandle_t handle, gemm_shape const& s, int choice = 0) : is_fp64_(s.output == dtype::f64) {
    auto const what = concat({"prepare a GEMM of [", s.m, ", ", s.k, "] and [", s.k, ", ", s.n, "]"});
    bool const tf32 = s.tf32 && s.inputs == dtype::f32;
    auto const compute = is_fp64_ ? CUBLAS_COMPUTE_64F : tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublas_check(cublasLtMatmulDescCreate(operation_.address(), compute, is_fp64_ ? CUDA_R_64F : CUDA_R_32F), what);
    cublasOperation_t const transpose_first = s.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t const transpose_second = s.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublas_check(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transpose_first,
                                                sizeof transpose_first),
                 what);
    cublas_check(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSB, &transpose_second,
                                                sizeof transpose_second),
                 what);
    if (s.bias_alignment > 0) set_bias(s, what);
    auto const extent = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
    cublas_check(cublasLtMatrixLayoutCreate(b_.address(), cuda_type(s.inputs), extent(s.b_transposed ? s.k : s.n),
                                            extent(s.b_transposed ? s.n : s.k), s.ldb),
                 what);
    cublas_check(cublasLtMatrixLayoutCreate(a_.address(), cuda_type(s.inputs), extent(s.a_transposed ? s.m : s.k),
                                            extent(s.a_transposed ? s.k : s.m), s.lda),
                 what);
    cublas_check(cublasLtMatrixLayoutCreate(c_.address(), cuda_type(s.output), extent(s.n), extent(s.m), s.ldc), what);

    cublas_preference preference;
    cublas_check(cublasLtMatmulPreferenceCreate(preference.address()), what);
    set_preferences(preference, s, what);
    cublasLtMatmulHeuristicResult_t candidates[max_choices]{};
    int count = 0;
    auto const status =
        cublasLtMatmulAlgoGetHeuristic(handle, operation_, b_, a_, c_, c_, preference, choice + 1, candidates, &count);
    cublas_check(count == 0 && status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : status, what);
    exists_ = count > choice;
    algorithm_ = candidates[choice].algo;
  }
  /// Whether algorithm number `choice` exists. If not, `run` must not be called.
  bool exists() const { return exists_; }
  cuda_gemm(cuda_gemm const&) = delete;
  cuda_gemm& operator=(cuda_gemm const&) = delete;

  /// Enqueues the GEMM on `stream`; a, b, c and `bias` are device pointers. `adds`: as in `gemm_shape`. `bias`: null if
  /// the GEMM was prepared without one. `workspace`: `gemm_workspace` bytes, at a multiple of 256. Throws `error` if
  /// cuBLASLt fails.
  void run(cublasLtHandle_t handle, void const* a, void const* b, void* c, bool adds, void const* bias,
           std::byte* workspace, cudaStream_t stream) const {
    if (bias != nullptr)
      cublas_check(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
                   "multiply two matrices");
    double const fp64_scalars[] = {1, adds ? 1.0 : 0.0};
    float const fp32_scalars[] = {1, adds ? 1.0f : 0.0f};
    void const* const alpha = is_fp64_ ? static_cast<void const*>(&fp64_scalars[0]) : &fp32_scalars[0];
    void const* const beta = is_fp64_ ? static_cast<void const*>(&fp64_scalars[1]) : &fp32_scalars[1];
    cublas_check(cublasLtMatmul(handle, operation_, alpha, b, b_, a, a_, beta, c, c_, c, c_, &algorithm_, workspace,
                                static_cast<std::size_t>(gemm_workspace), stream),
                 "multiply two matrices");
  }

private:
  /// Lets the GEMM add a bias.
  void set_bias(gemm_shape const& s, std::string const& what) {
    auto const epilogue = static_cast<std::uint32_t>(CUBLASLT_EPILOGUE_BIAS);
    // Not a real address: the heuristic reads only its alignment, and assumes it for every bias.
    auto const* const bias = reinterpret_cast<void const*>(static_cast<std::uintptr_t>(s.bias_alignment));
    cublas_check(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
                 what);
    cublas_check(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
                 what);
  }

  /// Restricts the algorithms that the heuristic may choose. By default, the heuristic assumes that addresses are
  /// multiples of 256, and may choose an algorithm that rounds partial sums to the type of C.
  static void set_preferences(cublasLtMatmulPreference_t preference, gemm_shape const& s, std::string const& what) {
    auto const set = [&](cublasLtMatmulPreferenceAttributes_t name, auto const value) {
      cublas_check(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof value), what);
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(gemm_workspace));
    // The in-place scheme adds partial sums in C, so it is allowed only if C has the type in which the GEMM computes.
    bool const is_16_bit = size_of(s.output) < 4;
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                                   (is_16_bit ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_INPLACE)));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(s.b_alignment)); // swapped, see above
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(s.a_alignment));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(s.c_alignment));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(s.c_alignment));
  }

  bool is_fp64_, exists_ = false;
  cublas_operation operation_;
  cublas_layout a_, b_, c_;
  cublasLtMatmulAlgo_t algorithm_{};
};

} // namespace detail

/// A cache of prepared cuBLASLt GEMMs. The algorithm for a shape is chosen at the first use of the shape.
class gemm_cache {
public:
  /// Throws `error` if cuBLASLt cannot be initialized.
  gemm_cache() { cublas_check(cublasLtCreate(&handle_), "create a handle"); }
  ~gemm_cache() {
    gemms_.clear();
    cublasLtDestroy(handle_);
  }
  gemm_cache(gemm_cache const&) = delete;
  gemm_cache& operator=(gemm_cache const&) = delete;

  /// Enqueues a GEMM on `stream`. `a`, `b`, `c` and `bias` are device pointers, whose alignments must be at least those
  /// in `s`. `bias`: null if `s` has none. `workspace`: `gemm_workspace` bytes, at a multiple of 256. Throws `error` if
  /// cuBLASLt fails or its heuristic finds no algorithm for `s`.
  void run(gemm_shape const& s, void const* a, void const* b, void* c, void const* bias, std::byte* workspace,
           cudaStream_t stream) {
    auto const entry = gemms_.try_emplace(s, handle_, s).first;
    entry->second.run(handle_, a, b, c, s.adds, bias, workspace, stream);
  }

private:
  cublasLtHandle_t handle_{};
  std::map<gemm_shape, detail::cuda_gemm> gemms_;
};

} // namespace constrain
