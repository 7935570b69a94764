#pragma once

#include "matrix.hpp"
#include "stream.hpp"

#include <cstdint>
#include <cstring>

namespace on_host {

/// The choice of an algorithm: what it was asked for, and what it was promised.
struct chosen_algorithm {
  bool is_chosen = false;
  cublasComputeType_t compute{};
  cublasOperation_t operation[2]{};
  on_host_layout a{}, b{}, c{}, d{};
  std::uint64_t workspace = 0;                       // bytes it may need
  std::uint32_t alignment[4] = {256, 256, 256, 256}; // of A, B, C and D: cuBLASLt's default
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::uintptr_t alignment_of_bias = 1; // of the bias that the heuristic saw, at most 256
};

/// Elements that no matrix may span: cuBLASLt 13.6 has algorithms that its heuristic returns, but that fail from there
/// on (github.com/NVIDIA/raft, issue 3097).
inline constexpr std::int64_t too_many_elements = std::int64_t{1} << 31;

/// Refuses layouts of which cuBLASLt makes no product.
inline void check_layouts(char const* call, on_host_product const& p, on_host_layout const& a, on_host_layout const& b,
                          on_host_layout const& c, on_host_layout const& d) {
  for (auto const* l : {&a, &b, &c, &d}) {
    if (l->rows <= 0 || l->columns <= 0)
      violated(call, text("a matrix of ", l->rows, " x ", l->columns), "a matrix has rows and columns");
    if (l->leading < l->rows)
      violated(call, text("a leading dimension of ", l->leading, " for columns of ", l->rows, " elements"),
               "it is at least the number of rows");
    if (l->elements() >= too_many_elements)
      violated(call, text("a matrix of ", l->elements(), " elements"), "an algorithm may fail from 2^31 elements on");
  }
  auto const transposed = [&](int i) { return p.operation[i] == CUBLAS_OP_T; };
  auto const m = transposed(0) ? a.columns : a.rows, k = transposed(0) ? a.rows : a.columns;
  auto const n = transposed(1) ? b.rows : b.columns, k_of_b = transposed(1) ? b.columns : b.rows;
  if (m != c.rows || n != c.columns || k != k_of_b || c.rows != d.rows || c.columns != d.columns)
    violated(call, text("op(A) ", m, " x ", k, ", op(B) ", k_of_b, " x ", n, ", C ", c.rows, " x ", c.columns),
             "the extents must fit");
  bool const in_double = p.compute == CUBLAS_COMPUTE_64F;
  bool const narrow = a.type == CUDA_R_16F || a.type == CUDA_R_16BF;
  bool const in_tf32 = p.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  bool const types = in_double ? a.type == CUDA_R_64F && d.type == CUDA_R_64F
                     : in_tf32 ? a.type == CUDA_R_32F && d.type == CUDA_R_32F
                               : (narrow && (d.type == a.type || d.type == CUDA_R_32F)) ||
                                     (a.type == CUDA_R_32F && d.type == CUDA_R_32F);
  if (!types || a.type != b.type || c.type != d.type || p.scale != (in_double ? CUDA_R_64F : CUDA_R_32F))
    violated(call, text("types ", a.type, ", ", b.type, ", ", c.type, ", ", d.type, ", computed in ", p.compute),
             "they must stand in cuBLASLt's table of types");
}

/// The operands of a product, and the memory that its algorithm may use.
struct matmul_operands {
  void const *a, *b, *c;
  void* d;
  void const* bias;
  char* workspace;
  std::size_t workspace_bytes;
};

/// The alignment of an address, at most 256.
inline std::uintptr_t alignment_of(void const* p) {
  auto const address = reinterpret_cast<std::uintptr_t>(p);
  return address == 0 || address % 256 == 0 ? 256 : address & (~address + 1);
}

/// Refuses a bias that is not where, or not as aligned as, the algorithm was promised.
inline void check_bias(char const* call, chosen_algorithm const& chosen, void const* bias, int device) {
  if (chosen.epilogue != CUBLASLT_EPILOGUE_BIAS) return;
  if (bias == nullptr) violated(call, "the bias is null", "CUBLASLT_EPILOGUE_BIAS adds a bias");
  auto const bytes = static_cast<std::size_t>(chosen.d.rows) * chosen.d.element();
  device_memory::check(call, "the bias", bias, bytes, device);
  auto const is = alignment_of(bias);
  if (is < 16 || is < chosen.alignment_of_bias)
    violated(call, text("the bias is aligned to ", is, " bytes"),
             "it begins at a multiple of 16 bytes, and is as aligned as the bias that the heuristic saw");
}

/// Refuses operands that are not where, or not as aligned as, the algorithm was promised.
inline void check_operands(char const* call, chosen_algorithm const& chosen, matmul_operands const& o, int device) {
  auto const address = [](void const* p) { return reinterpret_cast<std::uintptr_t>(p); };
  if (o.workspace_bytes > 0) device_memory::check(call, "the workspace", o.workspace, o.workspace_bytes, device);
  if (address(o.workspace) % 256 != 0)
    violated(call, text("the workspace lies at ", address(o.workspace) % 256, " modulo 256"),
             "its address is a multiple of 256");
  if (o.workspace_bytes < chosen.workspace)
    violated(call,
             text("a workspace of ", o.workspace_bytes, " bytes for an algorithm that may need ", chosen.workspace),
             "it is as large as the preference said");
  if (o.c == o.d && !(chosen.c == chosen.d))
    violated(call, "C is D in another layout", "in place the layouts are equal");
  struct operand {
    char const* name;
    void const* data;
    on_host_layout const& layout;
  };
  operand const operands[] = {{"A", o.a, chosen.a}, {"B", o.b, chosen.b}, {"C", o.c, chosen.c}, {"D", o.d, chosen.d}};
  for (int i = 0; i < 4; ++i) {
    auto const& x = operands[i];
    device_memory::check(call, x.name, x.data, x.layout.bytes(), device);
    auto const promised = chosen.alignment[i];
    if (address(x.data) % promised != 0)
      violated(
          call,
          text(x.name, " lies at ", address(x.data) % 256, " modulo 256, and the heuristic was promised ", promised),
          "an operand is as aligned as CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT says, by default 256");
    if (address(x.data) < address(o.workspace) + o.workspace_bytes &&
        address(o.workspace) < address(x.data) + x.layout.bytes())
      violated(call, text(x.name, " lies in the workspace"), "the algorithm overwrites its workspace");
  }
}

/// x as tensor cores read it in TF32: 10 bits of fraction, the nearest.
inline double in_tf32(double x) {
  auto const bits = __builtin_bit_cast(std::uint32_t, static_cast<float>(x));
  if ((bits & 0x7F800000u) == 0x7F800000u) return x;
  return static_cast<double>(__builtin_bit_cast(float, (bits + 0xFFFu + (bits >> 13 & 1u)) & ~0x1FFFu));
}

/// D = alpha op(A) op(B) + beta C, plus the bias in every column, summed in double; the operands are rounded if the
/// algorithm computes in TF32.
inline void multiply(chosen_algorithm const& chosen, matmul_operands const& o, double alpha, double beta) {
  auto const ends = o.workspace_bytes < 4096 ? o.workspace_bytes : 4096; // whoever kept something there sees it
  std::memset(o.workspace, 0xEE, ends);
  std::memset(o.workspace + o.workspace_bytes - ends, 0xEE, ends);
  bool const ta = chosen.operation[0] == CUBLAS_OP_T, tb = chosen.operation[1] == CUBLAS_OP_T;
  auto const &a = chosen.a, &b = chosen.b, &c = chosen.c, &d = chosen.d;
  auto const depth = ta ? a.rows : a.columns;
  bool const tf32 = chosen.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  auto const factor = [&](double x) { return tf32 ? in_tf32(x) : x; };
  for (std::int64_t row = 0; row < d.rows; ++row)
    for (std::int64_t column = 0; column < d.columns; ++column) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k)
        sum += factor(ta ? a.get(o.a, k, row) : a.get(o.a, row, k)) *
               factor(tb ? b.get(o.b, column, k) : b.get(o.b, k, column));
      sum = alpha * sum + (beta != 0 ? beta * c.get(o.c, row, column) : 0);
      if (chosen.epilogue == CUBLASLT_EPILOGUE_BIAS) sum += d.get(o.bias, row, 0);
      d.set(o.d, row, column, sum);
    }
}

} // namespace on_host
