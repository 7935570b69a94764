#pragma once

#include "handle.hpp"
#include "types.hpp"

#include <constrain/base/dtype.hpp>

#include <cstdint>

enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 };

enum cublasLtEpilogue_t { CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_BIAS = 4 };

/// The kind of a GEMM: the type in which it computes, which of A and B are transposed, and what it does with the sums.
struct on_host_product {
  static constexpr char const* name = "matmul descriptor";
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t operation[2] = {CUBLAS_OP_N, CUBLAS_OP_N};
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void const* bias = nullptr;

  void end() const {}
};

/// The layout of a matrix in memory: column by column.
struct on_host_layout {
  static constexpr char const* name = "matrix layout";
  cudaDataType_t type;
  std::int64_t rows, columns, leading;

  void end() const {}
  std::size_t element() const { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }
  /// From the first element to the end of the last one.
  std::int64_t elements() const { return (columns - 1) * leading + rows; }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * element(); }
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
  friend bool operator==(on_host_layout const&, on_host_layout const&) = default;
};
