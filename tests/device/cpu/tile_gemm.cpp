#include "constrain/device/cpu/tile_gemm.hpp"
#include "constrain/device/cpu/tile_copy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace ct = constrain;
using ct::detail::depth_range;

namespace {

template <class real> std::vector<real> random_values(std::size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<double> normal;
  std::vector<real> values(count);
  for (auto& x : values) x = static_cast<real>(normal(bits));
  return values;
}

// Against sums in double, for every number of registers in a row of C, with rows that are further apart than long.
template <ct::transpose transposed, class real> void check_gemms() {
  using tile = ct::detail::register_tile<real>;
  std::int64_t const rows = 3 * tile::rows, depth = 13;
  for (std::int64_t registers = 1; registers <= 10; ++registers) {
    std::int64_t const columns = registers * tile::lanes;
    std::int64_t const a_step = 3 * 8 + 5, b_step = columns + 3, c_step = columns + 1;
    auto const a = random_values<real>(static_cast<std::size_t>(a_step * a_step), 1);
    auto const b = random_values<real>(static_cast<std::size_t>(b_step * depth), 2);
    auto const factor = random_values<real>(static_cast<std::size_t>(columns), 3);
    auto const before = random_values<real>(static_cast<std::size_t>(c_step * rows), 4);
    // A part of the depth that depends on the row, and is empty for the last.
    auto const range = [=](std::int64_t row) {
      return row == rows - tile::rows ? depth_range{7, 7} : depth_range{row / tile::rows, depth - row / tile::rows};
    };
    auto const check = [&](auto const& store, auto const& expected) {
      auto c = before;
      ct::detail::tile_gemm<transposed>(rows, columns, range, a.data(), a_step, b.data(), b_step, c.data(), c_step,
                                        store);
      double worst = 0;
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < c_step; ++j) {
          auto const at = static_cast<std::size_t>(i * c_step + j);
          double sum = 0;
          auto const r = range(i / tile::rows * tile::rows);
          for (auto p = r.begin; j < columns && p < r.end; ++p)
            sum +=
                static_cast<double>(
                    a[static_cast<std::size_t>(transposed == ct::transpose::yes ? p * a_step + i : i * a_step + p)]) *
                static_cast<double>(b[static_cast<std::size_t>(p * b_step + j)]);
          auto const old = static_cast<double>(before[at]);
          double const right = j == columns ? old : expected(old, sum, static_cast<std::size_t>(j));
          worst = std::max(worst, std::abs(static_cast<double>(c[at]) - right));
        }
      CAPTURE(registers);
      CHECK(worst < (sizeof(real) == 4 ? 1e-5 : 1e-13));
    };
    check(ct::detail::overwrite{}, [](double, double sum, std::size_t) { return sum; });
    check(ct::detail::add_to{}, [](double old, double sum, std::size_t) { return old + sum; });
    check(ct::detail::scale_and_add_to<real>{factor.data()},
          [&](double old, double sum, std::size_t j) { return static_cast<double>(factor[j]) * old + sum; });
  }
}

} // namespace

TEST_CASE_TEMPLATE("tile_gemm: as the sums say", real, float, double) {
  check_gemms<ct::transpose::no, real>();
  check_gemms<ct::transpose::yes, real>();
}

TEST_CASE_TEMPLATE("load_tile: scaled, widened, and zeros behind", real, float, double) {
  std::vector<real> const from = {1, 2, 3, 4, 5, 6, 7, 8}; // two rows of three, four apart
  std::vector<real> to(3 * 5, real(-1));
  ct::detail::load_tile(from.data(), 4, 2, 3, real(2), to.data(), 3, 5);
  CHECK(to == std::vector<real>{2, 4, 6, 0, 0, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("load_tile: bf16 becomes float") {
  std::vector<ct::bfloat16> const from = {ct::bfloat16(1.5f), ct::bfloat16(-2.0f)};
  std::vector<float> to(2);
  ct::detail::load_tile(from.data(), 2, 1, 2, 1.0f, to.data(), 1, 2);
  CHECK(to == std::vector<float>{1.5f, -2.0f});
}

TEST_CASE_TEMPLATE("transpose_tile: each element at its mirrored place", real, float, double) {
  std::int64_t const rows = 48, columns = 16, from_step = 17, to_step = 50;
  auto const from = random_values<real>(static_cast<std::size_t>(rows * from_step), 5);
  std::vector<real> to(static_cast<std::size_t>(columns * to_step), real(7));
  ct::detail::transpose_tile(from.data(), from_step, rows, columns, to.data(), to_step);
  bool right = true;
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < to_step; ++i)
      right = right && to[static_cast<std::size_t>(j * to_step + i)] ==
                           (i < rows ? from[static_cast<std::size_t>(i * from_step + j)] : real(7));
  CHECK(right);
}
