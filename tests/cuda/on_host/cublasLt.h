#pragma once

// The calls of cuBLASLt that the library makes, on the host: column-major products, summed in double.

#include "cuda_runtime.h"

#include <constrain/base/dtype.hpp>

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_NOT_SUPPORTED = 15 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_64F };
enum cudaDataType_t { CUDA_R_32F, CUDA_R_64F, CUDA_R_16F, CUDA_R_16BF };
enum cublasLtMatmulDescAttributes_t { CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB };
enum cublasLtMatmulPreferenceAttributes_t { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES };

struct on_host_product {
  cudaDataType_t scale;
  cublasOperation_t operation[2] = {CUBLAS_OP_N, CUBLAS_OP_N};
};
struct on_host_layout {
  cudaDataType_t type;
  std::int64_t rows, columns, leading;

  double get(void const* data, std::int64_t row, std::int64_t column) const {
    auto const i = column * leading + row;
    if (type == CUDA_R_64F) return static_cast<double const*>(data)[i];
    if (type == CUDA_R_32F) return static_cast<float const*>(data)[i];
    if (type == CUDA_R_16F) return static_cast<constrain::float16 const*>(data)[i];
    return static_cast<constrain::bfloat16 const*>(data)[i];
  }
  void set(void* data, std::int64_t row, std::int64_t column, double value) const {
    auto const i = column * leading + row;
    if (type == CUDA_R_64F) static_cast<double*>(data)[i] = value;
    else if (type == CUDA_R_32F) static_cast<float*>(data)[i] = static_cast<float>(value);
    else if (type == CUDA_R_16F) static_cast<constrain::float16*>(data)[i] = static_cast<float>(value);
    else static_cast<constrain::bfloat16*>(data)[i] = static_cast<float>(value);
  }
};
struct on_host_handle {};
struct on_host_preference {};
using cublasLtHandle_t = on_host_handle*;
using cublasLtMatmulDesc_t = on_host_product*;
using cublasLtMatrixLayout_t = on_host_layout*;
using cublasLtMatmulPreference_t = on_host_preference*;
struct cublasLtMatmulAlgo_t {};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
};

inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* h) { return *h = new on_host_handle, CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) {
  delete h;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t, cudaDataType_t scale) {
  return *d = new on_host_product{scale}, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t a,
                                                     void const* value, std::size_t) {
  d->operation[a == CUBLASLT_MATMUL_DESC_TRANSA ? 0 : 1] = *static_cast<cublasOperation_t const*>(value);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete d;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* l, cudaDataType_t type, std::uint64_t rows,
                                                 std::uint64_t columns, std::int64_t leading) {
  *l = new on_host_layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading};
  return leading >= static_cast<std::int64_t>(rows) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
inline cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  delete l;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) {
  return *p = new on_host_preference, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                           cublasLtMatmulPreferenceAttributes_t, void const*,
                                                           std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  delete p;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                                                     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                                     cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
                                                     cublasLtMatmulHeuristicResult_t*, int* count) {
  auto const rows = [&](cublasLtMatrixLayout_t l, int i) {
    return d->operation[i] == CUBLAS_OP_N ? l->rows : l->columns;
  };
  auto const columns = [&](cublasLtMatrixLayout_t l, int i) {
    return d->operation[i] == CUBLAS_OP_N ? l->columns : l->rows;
  };
  bool const fits = rows(a, 0) == c->rows && columns(b, 1) == c->columns && columns(a, 0) == rows(b, 1);
  *count = fits ? 1 : 0;
  return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, void const* alpha, void const* a,
                                     cublasLtMatrixLayout_t a_layout, void const* b, cublasLtMatrixLayout_t b_layout,
                                     void const* beta, void const* c, cublasLtMatrixLayout_t c_layout, void* result,
                                     cublasLtMatrixLayout_t, cublasLtMatmulAlgo_t const*, void* workspace,
                                     std::size_t workspace_bytes, cudaStream_t) {
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  auto const number = [&](void const* x) {
    return d->scale == CUDA_R_64F ? *static_cast<double const*>(x) : static_cast<double>(*static_cast<float const*>(x));
  };
  on_host::start(
      [=, product = *d, la = *a_layout, lb = *b_layout, lc = *c_layout, scale = number(alpha), keep = number(beta)] {
        ++on_host::gemms;
        auto const ends = workspace_bytes < 4096 ? workspace_bytes : 4096; // whoever kept something there sees it
        std::memset(workspace, 0xEE, ends);
        std::memset(static_cast<char*>(workspace) + workspace_bytes - ends, 0xEE, ends);
        bool const ta = product.operation[0] == CUBLAS_OP_T, tb = product.operation[1] == CUBLAS_OP_T;
        auto const depth = ta ? la.rows : la.columns;
        for (std::int64_t row = 0; row < lc.rows; ++row)
          for (std::int64_t column = 0; column < lc.columns; ++column) {
            double sum = 0;
            for (std::int64_t k = 0; k < depth; ++k)
              sum += (ta ? la.get(a, k, row) : la.get(a, row, k)) * (tb ? lb.get(b, column, k) : lb.get(b, k, column));
            lc.set(result, row, column, scale * sum + (keep != 0 ? keep * lc.get(c, row, column) : 0));
          }
      });
  return CUBLAS_STATUS_SUCCESS;
}
