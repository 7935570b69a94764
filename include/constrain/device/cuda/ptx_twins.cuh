#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

#include <cuda_runtime.h>
#include <sm_30_intrinsics.h>

/// The tensor-core instructions of ptx.cuh, written in C++ with warp shuffles. The layouts of the fragments follow the
/// PTX ISA (ldmatrix, and "Matrix Fragments for mma.m16n8k16 with floating point type"). Outside CUDA compilation,
/// these functions replace the instructions; tests compare the instructions of a device with the functions. All 32
/// lanes of a warp must together call the functions that exchange data: those that load or multiply.
namespace constrain::inline CONSTRAIN_VARIANT::ptx::twin {

/// The mask of all lanes of a warp.
inline constexpr unsigned all_lanes = 0xFFFFFFFF;

/// This thread's index in its warp.
__device__ inline int lane() { return static_cast<int>(threadIdx.x % 32); }

#if defined(__CUDACC__)
/// One value per lane of a warp; the size of a value is a multiple of 4 bytes. A lane can read the value of any lane;
/// all lanes must read together.
template <class T> class lane_values {
public:
  /// `mine`: this lane's value. All lanes must construct the object together.
  __device__ explicit lane_values(T const& mine) : mine_(mine) {}
  /// The value of lane `lane`, which may differ between the lanes.
  __device__ T operator[](int lane) const {
    static_assert(sizeof(T) % 4 == 0);
    std::uint32_t words[sizeof(T) / 4];
    memcpy(words, &mine_, sizeof(T));
    for (auto& word : words) word = __shfl_sync(all_lanes, word, lane);
    T result;
    memcpy(&result, words, sizeof(T));
    return result;
  }

private:
  T mine_;
};
#else
using ::lane_values; // from the stand-in for sm_30_intrinsics.h; its lanes wait for each other once for all values
#endif

/// One of the two 16-bit elements of type `real` in a register, as a float: the lower one if `half` is 0, the upper one
/// if it is 1.
template <class real> __device__ inline float element(std::uint32_t pair, int half) {
  real x;
  x.bits = static_cast<std::uint16_t>(pair >> (16 * half));
  return x;
}

/// cvt: two floats, rounded to `real`, in one register; `low` in the lower half.
template <class real> __device__ inline std::uint32_t pair_of(float low, float high) {
  return real(low).bits | static_cast<std::uint32_t>(real(high).bits) << 16;
}

/// ldmatrix .x4. `row`: lane i passes the address of row i % 8 of matrix i / 8. A row has 8 elements of 16 bits. to[j]
/// receives the elements in row lane / 4 and columns 2 (lane % 4) and 2 (lane % 4) + 1 of matrix j.
__device__ inline void load_matrices(std::uint32_t (&to)[4], void const* row) {
  lane_values const rows(row);
  for (int j = 0; j < 4; ++j) to[j] = static_cast<std::uint32_t const*>(rows[8 * j + lane() / 4])[lane() % 4];
}

/// ldmatrix .x4.trans: like load_matrices, but loads the transposed matrices. to[j] receives the elements in rows
/// 2 (lane % 4) and 2 (lane % 4) + 1 and column lane / 4 of matrix j.
__device__ inline void load_transposed_matrices(std::uint32_t (&to)[4], void const* row) {
  lane_values const rows(row);
  for (int j = 0; j < 4; ++j) {
    to[j] = 0;
    for (int half = 0; half < 2; ++half) {
      auto const* const from = static_cast<std::uint16_t const*>(rows[8 * j + 2 * (lane() % 4) + half]);
      to[j] |= static_cast<std::uint32_t>(from[lane() / 4]) << (16 * half);
    }
  }
}

/// A lane's elements of A and B in multiply_add.
struct fragments {
  std::uint32_t a[4], b[2];
};

/// mma.m16n8k16: D += A B, with A [16, 16] and B [16, 8] of type `real` (bfloat16 or float16), and D [16, 8] in fp32.
/// With g = lane / 4 and t = lane % 4, a lane holds these elements:
///
///     a[0]        A, row g,     columns 2t, 2t + 1          a[2]        A, row g,     columns 2t + 8, 2t + 9
///     a[1]        A, row g + 8, columns 2t, 2t + 1          a[3]        A, row g + 8, columns 2t + 8, 2t + 9
///     b[0]        B, rows 2t, 2t + 1, column g              b[1]        B, rows 2t + 8, 2t + 9, column g
///     d[0], d[1]  D, row g,     columns 2t, 2t + 1          d[2], d[3]  D, row g + 8, columns 2t, 2t + 1
template <class real>
__device__ void multiply_add(float (&d)[4], std::uint32_t const (&a)[4], std::uint32_t const (&b)[2]) {
  int const g = lane() / 4, t = lane() % 4;
  lane_values const all(fragments{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
  std::uint32_t rows[2][8], columns[2][8]; // the two rows of A and the two columns of B, in pairs of elements
  for (int source = 0; source < 4; ++source)
    for (int i = 0; i < 2; ++i) {
      auto const of_row = all[4 * g + source], of_column = all[4 * (2 * t + i) + source];
      rows[0][source + 4 * i] = of_row.a[2 * i], rows[1][source + 4 * i] = of_row.a[2 * i + 1];
      columns[i][source] = of_column.b[0], columns[i][source + 4] = of_column.b[1];
    }
  for (int i = 0; i < 4; ++i) {
    float sum = d[i];
    for (int pair = 0; pair < 8; ++pair)
      for (int half = 0; half < 2; ++half)
        sum += element<real>(rows[i / 2][pair], half) * element<real>(columns[i % 2][pair], half);
    d[i] = sum;
  }
}

} // namespace constrain::ptx::twin
