#pragma once

// The cuBLASLt calls that the library makes, on the host: column-major GEMMs, as strict as cuBLASLt's contracts.

#include "cuda_runtime.h"
#include "stand_in/matmul.hpp"

#include <algorithm>

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8
};
enum cublasLtReductionScheme_t {
  CUBLASLT_REDUCTION_SCHEME_NONE = 0,
  CUBLASLT_REDUCTION_SCHEME_INPLACE = 1,
  CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
  CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE = 4,
  CUBLASLT_REDUCTION_SCHEME_MASK = 7
};
enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};

struct on_host_handle {
  static constexpr char const* name = "cuBLASLt handle";
  int device;

  void end() const {}
};
struct on_host_preference {
  static constexpr char const* name = "matmul preference";
  std::uint64_t workspace = 0; // bytes
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment[4] = {256, 256, 256, 256}; // of A, B, C and D

  void end() const {}
};
using cublasLtHandle_t = on_host_handle*;
using cublasLtMatmulDesc_t = on_host_product*;
using cublasLtMatrixLayout_t = on_host_layout*;
using cublasLtMatmulPreference_t = on_host_preference*;
using cublasLtMatmulAlgo_t = on_host::chosen_algorithm;
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspaceSize = 0;
  cublasStatus_t state = CUBLAS_STATUS_SUCCESS;
  float wavesCount = 0;
};

namespace on_host {

/// The value of an attribute, of the size that cuBLASLt expects.
template <class T> T attribute(char const* call, void const* value, std::size_t bytes) {
  if (bytes != sizeof(T))
    violated(call, text("the attribute is given ", bytes, " bytes"), text("it has ", sizeof(T)).c_str());
  T to;
  std::memcpy(&to, value, sizeof to);
  return to;
}
/// The last preference whose reductions were set, for tests.
inline std::uint32_t reductions_allowed = CUBLASLT_REDUCTION_SCHEME_MASK;

} // namespace on_host

inline char const* cublasLtGetStatusName(cublasStatus_t s) {
  switch (s) {
  case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
  case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
  case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
  case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
  case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
  case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
  case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
  case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "CUBLAS_STATUS_UNKNOWN";
}
inline char const* cublasLtGetStatusString(cublasStatus_t s) { return cublasLtGetStatusName(s); }

inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* h) {
  on_host::not_in_capture("cublasLtCreate");
  if (on_host::fails("cublasLtCreate")) return CUBLAS_STATUS_NOT_INITIALIZED;
  return *h = on_host::handles<on_host_handle>::make(on_host_handle{on_host::current_device}), CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) {
  on_host::handles<on_host_handle>::destroy("cublasLtDestroy", h);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  if (on_host::fails("cublasLtMatmulDescCreate")) return CUBLAS_STATUS_ALLOC_FAILED;
  return *d = on_host::handles<on_host_product>::make(on_host_product{compute, scale}), CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t a,
                                                     void const* value, std::size_t bytes) {
  constexpr auto call = "cublasLtMatmulDescSetAttribute";
  auto& product = on_host::handles<on_host_product>::use(call, d);
  if (a == CUBLASLT_MATMUL_DESC_BIAS_POINTER) {
    product.bias = on_host::attribute<void const*>(call, value, bytes);
    return on_host::fails(call) ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
  }
  if (a == CUBLASLT_MATMUL_DESC_EPILOGUE) {
    product.epilogue = on_host::attribute<std::uint32_t>(call, value, bytes);
    if (product.epilogue != CUBLASLT_EPILOGUE_DEFAULT && product.epilogue != CUBLASLT_EPILOGUE_BIAS)
      on_host::violated(call, on_host::text("epilogue ", product.epilogue), "the library uses two");
    return on_host::fails(call) ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
  }
  auto const operation = on_host::attribute<std::int32_t>(call, value, bytes);
  if (operation != CUBLAS_OP_N && operation != CUBLAS_OP_T)
    on_host::violated(call, on_host::text("operation ", operation), "a matrix is taken as it is or transposed");
  if (on_host::fails(call)) return CUBLAS_STATUS_INTERNAL_ERROR;
  product.operation[a == CUBLASLT_MATMUL_DESC_TRANSA ? 0 : 1] = static_cast<cublasOperation_t>(operation);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  on_host::handles<on_host_product>::destroy("cublasLtMatmulDescDestroy", d);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* l, cudaDataType_t type, std::uint64_t rows,
                                                 std::uint64_t columns, std::int64_t leading) {
  if (on_host::fails("cublasLtMatrixLayoutCreate")) return CUBLAS_STATUS_ALLOC_FAILED;
  on_host_layout const made{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading};
  return *l = on_host::handles<on_host_layout>::make(made), CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  on_host::handles<on_host_layout>::destroy("cublasLtMatrixLayoutDestroy", l);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) {
  if (on_host::fails("cublasLtMatmulPreferenceCreate")) return CUBLAS_STATUS_ALLOC_FAILED;
  return *p = on_host::handles<on_host_preference>::make(), CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                           cublasLtMatmulPreferenceAttributes_t a, void const* value,
                                                           std::size_t bytes) {
  constexpr auto call = "cublasLtMatmulPreferenceSetAttribute";
  auto& preference = on_host::handles<on_host_preference>::use(call, p);
  if (a == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    preference.workspace = on_host::attribute<std::uint64_t>(call, value, bytes);
  } else {
    auto const number = on_host::attribute<std::uint32_t>(call, value, bytes);
    if (a == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) on_host::reductions_allowed = preference.reductions = number;
    else if (number == 0 || (number & (number - 1)) != 0)
      on_host::violated(call, on_host::text("an alignment of ", number), "an alignment is a power of two");
    else preference.alignment[a - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] = number;
  }
  return on_host::fails(call) ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  on_host::handles<on_host_preference>::destroy("cublasLtMatmulPreferenceDestroy", p);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t desc,
                                                     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                     cublasLtMatmulPreference_t p, int wanted,
                                                     cublasLtMatmulHeuristicResult_t* to, int* count) {
  constexpr auto call = "cublasLtMatmulAlgoGetHeuristic";
  using layouts = on_host::handles<on_host_layout>;
  on_host::handles<on_host_handle>::use(call, h);
  auto const& product = on_host::handles<on_host_product>::use(call, desc);
  auto const& preference = on_host::handles<on_host_preference>::use(call, p);
  on_host::chosen_algorithm chosen{true,
                                   product.compute,
                                   {product.operation[0], product.operation[1]},
                                   layouts::use(call, a),
                                   layouts::use(call, b),
                                   layouts::use(call, c),
                                   layouts::use(call, d),
                                   preference.workspace};
  std::memcpy(chosen.alignment, preference.alignment, sizeof chosen.alignment);
  chosen.epilogue = product.epilogue;
  chosen.alignment_of_bias = on_host::alignment_of(product.bias);
  on_host::check_layouts(call, product, chosen.a, chosen.b, chosen.c, chosen.d);
  if (wanted < 1) on_host::violated(call, "no algorithm is asked for", "one at least is");
  *count = 0;
  if (on_host::fails(call)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *count = std::min(wanted, 2); // real ones differ in speed
  std::fill_n(to, *count, cublasLtMatmulHeuristicResult_t{chosen, preference.workspace});
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t desc, void const* alpha, void const* a,
                                     cublasLtMatrixLayout_t a_layout, void const* b, cublasLtMatrixLayout_t b_layout,
                                     void const* beta, void const* c, cublasLtMatrixLayout_t c_layout, void* d,
                                     cublasLtMatrixLayout_t d_layout, cublasLtMatmulAlgo_t const* algorithm,
                                     void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  constexpr auto call = "cublasLtMatmul";
  using layouts = on_host::handles<on_host_layout>;
  auto& s = on_host::stream_of_current_device(call, stream);
  if (on_host::handles<on_host_handle>::use(call, h).device != s.device)
    on_host::violated(call, "handle and stream are of different devices",
                      "a handle is one of the device it was made on");
  auto const& product = on_host::handles<on_host_product>::use(call, desc);
  auto const& chosen = *algorithm;
  bool const as_chosen = chosen.is_chosen && chosen.compute == product.compute && chosen.epilogue == product.epilogue &&
                         chosen.operation[0] == product.operation[0] && chosen.operation[1] == product.operation[1] &&
                         chosen.a == layouts::use(call, a_layout) && chosen.b == layouts::use(call, b_layout) &&
                         chosen.c == layouts::use(call, c_layout) && chosen.d == layouts::use(call, d_layout);
  if (!as_chosen) on_host::violated(call, "the algorithm was chosen for another product", "it is good for one alone");
  on_host::matmul_operands const operands{a, b, c, d, product.bias, static_cast<char*>(workspace), workspace_bytes};
  on_host::check_bias(call, chosen, product.bias, s.device);
  on_host::check_operands(call, chosen, operands, s.device);
  if (on_host::fails(call)) return CUBLAS_STATUS_EXECUTION_FAILED;
  auto const number = [&](void const* x) { // in host memory: the default pointer mode
    if (product.scale == CUDA_R_64F) return *static_cast<double const*>(x);
    return static_cast<double>(*static_cast<float const*>(x));
  };
  on_host::work w;
  w.body = [=, algorithm_ = chosen, scale = number(alpha), keep = number(beta)] {
    on_host::multiply(algorithm_, operands, scale, keep);
  };
  w.is_gemm = true;
  on_host::submit(s, std::move(w));
  return CUBLAS_STATUS_SUCCESS;
}
