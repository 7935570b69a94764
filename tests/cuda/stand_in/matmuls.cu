// Faults with cuBLASLt, each of which the stand-in finds.

#include "cuda/stand_in/planted.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

using namespace planted;

namespace {

constexpr std::size_t workspace_bytes = 8192;

/// D [5, 7] = A [5, 3] B [3, 7], column-major in fp32, and what a test makes wrong.
struct product {
  cudaDataType_t type_of_b = CUDA_R_32F;
  std::int64_t leading_of_a = 5, rows_of_b = 3;
  std::uint32_t alignment_of_a = 256;
  std::size_t offset_of_a = 0, offset_of_d = 0, offset_of_workspace = 0, bytes_of_workspace = workspace_bytes;
  bool workspace_over_d = false, another_algorithm = false;
  // -1: no bias; otherwise the offset of the bias that is added, and of the one that the heuristic saw
  std::int64_t offset_of_bias = -1, offset_of_first_bias = 0;
  bool another_epilogue = false;

  float run() const {
    stream const s;
    device_array<float> const memory(4096);
    std::vector<float> const ones(4096, 1);
    cudaMemcpy(memory.data, ones.data(), 4096 * sizeof(float), cudaMemcpyHostToDevice);
    cudaDeviceSynchronize();
    device_array<std::byte> const scratch(workspace_bytes + 256);
    cublasLtHandle_t handle{};
    cublasLtCreate(&handle);
    cublasLtMatmulDesc_t operation{};
    cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayout_t a{}, b{}, d{};
    cublasLtMatrixLayoutCreate(&a, CUDA_R_32F, 5, 3, leading_of_a);
    cublasLtMatrixLayoutCreate(&b, type_of_b, static_cast<std::uint64_t>(rows_of_b), 7, rows_of_b);
    cublasLtMatrixLayoutCreate(&d, CUDA_R_32F, 5, 7, 5);
    cublasLtMatmulPreference_t preference{};
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                         sizeof workspace_bytes);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment_of_a,
                                         sizeof alignment_of_a);
    auto const set_bias = [&](std::int64_t offset) {
      void const* const bias = memory.data + 3072 + offset;
      cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    };
    auto const set_epilogue = [&](std::uint32_t epilogue) {
      cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    };
    if (offset_of_bias >= 0) set_epilogue(CUBLASLT_EPILOGUE_BIAS), set_bias(offset_of_first_bias);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, d, d, preference, 1, &found, &count);
    if (another_algorithm) found.algo = {};
    if (offset_of_bias >= 0) set_bias(offset_of_bias);
    if (another_epilogue) set_epilogue(CUBLASLT_EPILOGUE_BIAS);
    float const alpha = 1, beta = 0;
    auto* const to = memory.data + 2048 + offset_of_d;
    void* const workspace =
        workspace_over_d ? memory.data + 1024 : static_cast<void*>(scratch.data + offset_of_workspace);
    cublasLtMatmul(handle, operation, &alpha, memory.data + offset_of_a, a, memory.data + 256, b, &beta, to, d, to, d,
                   &found.algo, workspace, bytes_of_workspace, s);
    float const result = memory[2048 + offset_of_d];
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatrixLayoutDestroy(a);
    cublasLtMatrixLayoutDestroy(b);
    cublasLtMatrixLayoutDestroy(d);
    cublasLtMatmulDescDestroy(operation);
    cublasLtDestroy(handle);
    return result;
  }
};

} // namespace

TEST_CASE("a product, and what is wrong with others") {
  CHECK(product{}.run() == 3);
  CHECK(product{.alignment_of_a = 4, .offset_of_a = 1}.run() == 3);
  CHECK(product{.offset_of_workspace = 256}.run() == 3);
  CHECK(on_host::still_alive() == "");
  FOUND("cublasLtMatmul: the workspace lies at 8 modulo 256", product{.offset_of_workspace = 8}.run());
  FOUND("A lies at 4 modulo 256, and the heuristic was promised 256", product{.offset_of_a = 1}.run());
  FOUND("A lies at 4 modulo 256, and the heuristic was promised 16",
        product{.alignment_of_a = 16, .offset_of_a = 1}.run());
  FOUND("C lies at 4 modulo 256", product{.offset_of_d = 1}.run());
  FOUND("a leading dimension of 4 for columns of 5 elements", product{.leading_of_a = 4}.run());
  FOUND("cublasLtMatmulAlgoGetHeuristic: a matrix of 2147483653 elements",
        product{.leading_of_a = std::int64_t{1} << 30}.run());
  FOUND("op(A) 5 x 3, op(B) 4 x 7, C 5 x 7", product{.rows_of_b = 4}.run());
  FOUND("they must stand in cuBLASLt's table of types", product{.type_of_b = CUDA_R_16BF}.run());
  FOUND("A has 64020 bytes from byte 0 of an allocation of 16384", product{.leading_of_a = 8000}.run());
  FOUND("C has 140 bytes from byte 16260 of an allocation", product{.offset_of_d = 2017}.run());
  FOUND("a workspace of 4096 bytes for an algorithm that may need 8192", product{.bytes_of_workspace = 4096}.run());
  FOUND("C lies in the workspace", product{.workspace_over_d = true}.run());
  FOUND("the algorithm was chosen for another product", product{.another_algorithm = true}.run());
  CHECK(product{.offset_of_bias = 0}.run() == 4);
  CHECK(product{.offset_of_bias = 4, .offset_of_first_bias = 4}.run() == 4);
  FOUND("the bias is aligned to 8 bytes", product{.offset_of_bias = 2, .offset_of_first_bias = 2}.run());
  FOUND("the bias is aligned to 16 bytes", product{.offset_of_bias = 4}.run());
  FOUND("the bias has 20 bytes from byte 16368 of an allocation of 16384", product{.offset_of_bias = 1020}.run());
  FOUND("the algorithm was chosen for another product", product{.another_epilogue = true}.run());
}

TEST_CASE("attributes have their size, handles their life") {
  cublasLtMatmulPreference_t preference{};
  cublasLtMatmulPreferenceCreate(&preference);
  std::uint32_t const bytes = 4096;
  FOUND(
      "cublasLtMatmulPreferenceSetAttribute: the attribute is given 4 bytes; it has 8",
      cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes));
  FOUND("an alignment of 24", std::uint32_t const alignment = 24; cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignment, sizeof alignment));
  cublasLtMatmulDesc_t operation{};
  cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  bool const transposed = true;
  FOUND("cublasLtMatmulDescSetAttribute: the attribute is given 1 bytes; it has 4",
        cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
  cublasLtMatmulDescDestroy(operation);
  FOUND("cublasLtMatmulDescDestroy: this matmul descriptor was destroyed", cublasLtMatmulDescDestroy(operation));
  cublasLtMatmulPreferenceDestroy(preference);
  FOUND("cublasLtMatmulPreferenceDestroy: this matmul preference was destroyed",
        cublasLtMatmulPreferenceDestroy(preference));
}
