// Products of matrices of a warp, on tensor cores and without, against products in double on the host.

#include <constrain/device/cuda/tile/multiply.cuh>
#include <doctest/doctest.h>

#include "cuda/probe.cuh"

#include <cmath>

namespace ct = constrain;
using namespace constrain::test;

namespace {

/// The sizes of the products of one type, in one warp.
template <class element> struct sizes {
  static constexpr int rows = ct::for_tensor_cores<element> ? 32 : 16;
  static constexpr int depth = 128 / static_cast<int>(sizeof(element)); // columns of a, and of b
  static constexpr int columns = 32;                                    // rows of b
};

// c = a b^T, [rows, columns], and d = c b, [rows, depth], from a [rows, depth] and b [columns, depth].
template <class element, class real>
static __global__ void products_kernel(element const* a, element const* b, bool aligned, element* c, element* d) {
  using size = sizes<element>;
  __shared__ ct::shared_tile<element, 64, size::depth> a_tile;
  __shared__ ct::shared_tile<element, size::columns, size::depth> b_tile;
  __shared__ ct::shared_tile<element, 64, 256 / sizeof(element)> results; // its first columns
  ct::begin_load<128>(a_tile, {a, size::depth, size::rows, size::depth, aligned});
  ct::begin_load<128>(b_tile, {b, size::depth, size::columns, size::depth, aligned});
  ct::ptx::commit_copies();
  ct::ptx::wait_for_copies<0>();
  __syncthreads();
  if (threadIdx.x >= 32) return;
  ct::strip<real, size::rows, size::columns> product;
  product.clear();
  ct::multiply_transposed(product, ct::tile_rows<decltype(a_tile), size::rows>(a_tile, 0), b_tile);
  product.write(results, 0);
  __syncwarp();
  ct::store_rows<size::rows>(results, 0, {c, size::columns, size::rows, size::columns, aligned});
  __syncwarp();
  ct::strip<real, size::rows, size::depth> second;
  second.clear();
  ct::multiply(second, product, b_tile);
  second.write(results, 0);
  __syncwarp();
  ct::store_rows<size::rows>(results, 0, {d, size::depth, size::rows, size::depth, aligned});
}

/// Multiplies the rows of two tiles of 16-bit elements that are side by side with those of another tile, the left rows
/// from all places where they may be: whether all products have the same bits, and whether the second 16 rows of b give
/// the second 16 columns.
template <class element> static __global__ void places_kernel(element const* a, element const* b, int* same) {
  constexpr int depth = 64, rows = 32, columns = 32;
  using half = ct::shared_tile<element, rows, depth / 2>;
  __shared__ ct::shared_tile<element, rows, depth> whole;
  __shared__ half halves[2];
  __shared__ ct::shared_tile<element, columns, depth> right;
  ct::begin_load<64>(whole, {a, depth, rows, depth, true});
  ct::begin_load<64>(halves[0], {a, depth, rows, depth, true});
  ct::begin_load<64>(halves[1], {a + depth / 2, depth, rows, depth / 2, true});
  ct::tile_source<64, ct::shared_tile<element, columns, depth>>({b, depth, columns, depth, true}).begin(right, 0, 0);
  ct::ptx::commit_copies();
  ct::ptx::wait_for_copies<0>();
  __syncthreads();
  if (threadIdx.x >= 32) return;
  ct::tile_rows<decltype(whole), rows> const of_tile(whole, 0);
  ct::held_rows<decltype(whole), rows> held;
  held.load(of_tile);
  ct::half_held_rows<half, rows> split(ct::tile_rows<half, rows>(halves[1], 0));
  split.load(ct::tile_rows<half, rows>(halves[0], 0));
  ct::strip<float, rows, columns> from_tile, from_held, from_split;
  ct::strip<float, rows, columns / 2> second;
  auto const one = [](int, int) { return ct::strip_block<float>{1, 1, 1, 1}; };
  ct::multiply_transposed(from_tile, of_tile, right, 0, one);
  ct::multiply_transposed(from_held, held, right, 0, one);
  ct::multiply_transposed(from_split, split, right, 0, one);
  second.begin_with(one);
  ct::multiply_transposed(second, held, right, columns / 2);
  bool all = true;
  from_tile.for_each([&](float x, int line, int column) {
    all = all && from_held.at(line, column) == x && from_split.at(line, column) == x;
    if (column >= columns / 2) all = all && second.at(line, column - columns / 2) == x;
  });
  same[threadIdx.x] = all ? 1 : 0;
}

/// Small integers, so that every type has exact products; those of d are rounded to the type once.
template <class element> void products_are_exact(bool aligned) {
  using size = sizes<element>;
  using real = ct::arithmetic<element>;
  std::mt19937 random(1);
  std::vector<element> a(size::rows * size::depth), b(size::columns * size::depth);
  for (auto& x : a) x = static_cast<real>(static_cast<int>(random() % 3) - 1);
  for (auto& x : b) x = static_cast<real>(static_cast<int>(random() % 3) - 1);
  probe p;
  auto *const on_a = p.to_device(a), *const on_b = p.to_device(b);
  auto* const on_c = p.room<element>(size::rows * size::columns);
  auto* const on_d = p.room<element>(size::rows * size::depth);
  p.run(128, products_kernel<element, real>, static_cast<element const*>(on_a), static_cast<element const*>(on_b),
        aligned, on_c, on_d);
  auto const c = p.from_device(on_c, size::rows * size::columns), d = p.from_device(on_d, size::rows * size::depth);
  auto const at = [](std::vector<element> const& x, int i) {
    return static_cast<int>(static_cast<real>(x[static_cast<std::size_t>(i)]));
  };
  for (int row = 0; row < size::rows; ++row) {
    int expected[size::columns]{};
    for (int column = 0; column < size::columns; ++column)
      for (int k = 0; k < size::depth; ++k)
        expected[column] += at(a, row * size::depth + k) * at(b, column * size::depth + k);
    for (int column = 0; column < size::columns; ++column)
      CHECK(at(c, row * size::columns + column) == expected[column]);
    for (int column = 0; column < size::depth; ++column) {
      int sum = 0;
      for (int k = 0; k < size::columns; ++k) sum += expected[k] * at(b, k * size::depth + column);
      element const rounded = static_cast<real>(sum);
      CHECK(at(d, row * size::depth + column) == static_cast<int>(static_cast<real>(rounded)));
    }
  }
}

} // namespace

TEST_CASE_TEMPLATE("products of a warp", element, ct::bfloat16, ct::float16, float, double) {
  products_are_exact<element>(true);
  products_are_exact<element>(false);
}

TEST_CASE_TEMPLATE("left rows give the same products from shared memory and from registers", element, ct::bfloat16,
                   ct::float16) {
  std::mt19937 random(2);
  std::vector<element> a(32 * 64), b(32 * 64);
  for (auto& x : a) x = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000;
  for (auto& x : b) x = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000;
  probe p;
  auto *const on_a = p.to_device(a), *const on_b = p.to_device(b);
  auto* const same = p.room<int>(32);
  p.run(64, places_kernel<element>, static_cast<element const*>(on_a), static_cast<element const*>(on_b), same);
  for (auto const lane : p.from_device(same, 32)) CHECK(lane == 1);
}
