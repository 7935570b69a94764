#include <constrain/device/cpu/gemm.hpp>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

// GEMMs of 16-bit matrices: sums in float, rounded once. The provider's and the built-in one give the same answer.

namespace ct = constrain;

namespace {

template <class narrow> struct matrices {
  std::vector<narrow> a, b;
  std::vector<float> wide_a, wide_b;

  matrices(std::size_t a_size, std::size_t b_size) : a(a_size), b(b_size), wide_a(a_size), wide_b(b_size) {
    std::mt19937 random(9);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < a_size; ++i) wide_a[i] = a[i] = narrow(normal(random));
    for (std::size_t i = 0; i < b_size; ++i) wide_b[i] = b[i] = narrow(normal(random));
  }
};

template <class real> double distance(std::vector<real> const& got, std::vector<float> const& expected) {
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    double const d = double(float(got[i])) - double(expected[i]);
    apart += d * d;
    size += double(expected[i]) * double(expected[i]);
  }
  return std::sqrt(apart / size);
}

// One rounding an element, of half a unit in the last place at most.
template <class T> inline constexpr double rounding = std::is_same_v<T, ct::float16> ? 0x1p-11 : 4e-3;

template <class T> void compare(ct::transpose ta, ct::transpose tb, std::int64_t m, std::int64_t n, std::int64_t k) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  matrices<T> const x(static_cast<std::size_t>(m * k), static_cast<std::size_t>(k * n));
  auto const lda = ta == ct::transpose::yes ? m : k, ldb = tb == ct::transpose::yes ? k : n;
  auto const size = static_cast<std::size_t>(m * n);
  for (float beta : {0.0f, 1.0f}) {
    std::vector<float> expected(size, 0.5f), wide(size, 0.5f), wide_builtin(size, 0.5f);
    std::vector<T> narrow(size, T(0.5f)), narrow_builtin(narrow);
    ct::gemm_builtin(ta, tb, m, n, k, 1, x.wide_a.data(), lda, x.wide_b.data(), ldb, beta, expected.data(), n);
    ct::gemm(ta, tb, m, n, k, 1, x.a.data(), lda, x.b.data(), ldb, beta, wide.data(), n);
    ct::gemm(ta, tb, m, n, k, 1, x.a.data(), lda, x.b.data(), ldb, beta, narrow.data(), n);
    ct::gemm_builtin(ta, tb, m, n, k, 1, x.a.data(), lda, x.b.data(), ldb, beta, wide_builtin.data(), n);
    ct::gemm_builtin(ta, tb, m, n, k, 1, x.a.data(), lda, x.b.data(), ldb, beta, narrow_builtin.data(), n);
    CHECK(distance(wide, expected) <= 1e-5);
    CHECK(distance(wide_builtin, expected) <= 1e-6);
    CHECK(distance(narrow, expected) <= rounding<T>);
    CHECK(distance(narrow_builtin, expected) <= rounding<T>);
  }
}

} // namespace

TEST_CASE_TEMPLATE("16-bit GEMMs: every transposition, odd sizes, float and 16-bit results", T, ct::bfloat16,
                   ct::float16) {
  std::printf("16-bit GEMMs with %s\n", ct::gemm_provider());
  for (auto ta : {ct::transpose::no, ct::transpose::yes})
    for (auto tb : {ct::transpose::no, ct::transpose::yes}) {
      compare<T>(ta, tb, 1, 1, 1);
      compare<T>(ta, tb, 17, 33, 65);
      compare<T>(ta, tb, 64, 48, 300);
      compare<T>(ta, tb, 150, 270, 520); // several tiles and depths
      compare<T>(ta, tb, 600, 40, 30);   // more rows than are packed at a time
    }
}

TEST_CASE_TEMPLATE("16-bit GEMMs: mixed operands and strides", T, ct::bfloat16, ct::float16) {
  // P (float) times V (16-bit, every third row of a wider matrix), as attention needs it.
  constexpr std::int64_t m = 9, n = 7, k = 11, stride = 30;
  matrices<T> const x(1, k * stride);
  std::vector<float> p(m * k), expected(m * n), wide(m * n);
  std::vector<T> narrow(m * n);
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = std::sin(static_cast<float>(i));
  ct::gemm_builtin(ct::transpose::no, ct::transpose::no, m, n, k, 0.5f, p.data(), k, x.wide_b.data(), stride, 0,
                   expected.data(), n);
  ct::gemm(ct::transpose::no, ct::transpose::no, m, n, k, 0.5f, p.data(), k, x.b.data(), stride, 0, wide.data(), n);
  ct::gemm(ct::transpose::no, ct::transpose::no, m, n, k, 0.5f, p.data(), k, x.b.data(), stride, 0, narrow.data(), n);
  CHECK(distance(wide, expected) <= 1e-6);
  CHECK(distance(narrow, expected) <= rounding<T>);
}

TEST_CASE_TEMPLATE("16-bit GEMMs: every element is widened as by its own conversion", T, ct::bfloat16, ct::float16) {
  std::vector<T> all(0x10000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
  constexpr auto lanes = static_cast<std::size_t>(ct::detail::vector_of<float>::lanes);
  int different = 0;
  for (std::size_t i = 0; i < all.size(); i += lanes) {
    auto const wide = ct::detail::load_wide<float>(all.data() + i);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      float const expected = all[i + lane], got = wide[lane];
      different += std::memcmp(&expected, &got, sizeof got) == 0 ? 0 : 1;
    }
  }
  CHECK(different == 0);
}

TEST_CASE("16-bit GEMMs: bf16 operands with an fp16 result") {
  constexpr std::int64_t m = 17, n = 33, k = 65;
  matrices<ct::bfloat16> const x(m * k, k * n);
  std::vector<float> expected(m * n);
  std::vector<ct::float16> narrow(m * n);
  auto const no = ct::transpose::no;
  ct::gemm_builtin(no, no, m, n, k, 1, x.wide_a.data(), k, x.wide_b.data(), n, 0, expected.data(), n);
  ct::gemm(no, no, m, n, k, 1, x.a.data(), k, x.b.data(), n, 0, narrow.data(), n);
  CHECK(distance(narrow, expected) <= rounding<ct::float16>);
}

#if defined(__AVX512BF16__)
TEST_CASE("16-bit GEMMs: pairs of bf16, of every transposition, also on processors that convert instead") {
  auto const no = ct::transpose::no, yes = ct::transpose::yes;
  for (auto ta : {no, yes})
    for (auto tb : {no, yes})
      for (std::int64_t k : {1, 2, 31, 65, 767, 768, 769, 1600}) { // odd and even, one depth and several
        constexpr std::int64_t m = 45, n = 70;
        CAPTURE(k);
        matrices<ct::bfloat16> const x(static_cast<std::size_t>(m * k), static_cast<std::size_t>(k * n));
        auto const lda = ta == yes ? m : k, ldb = tb == yes ? k : n;
        for (float beta : {0.0f, 0.5f}) {
          std::vector<float> expected(m * n, 3), wide(m * n, 3);
          std::vector<ct::bfloat16> narrow(m * n, ct::bfloat16(3));
          ct::gemm_builtin(ta, tb, m, n, k, 2, x.wide_a.data(), lda, x.wide_b.data(), ldb, beta, expected.data(), n);
          ct::detail::gemm_packed<ct::detail::bfloat16_pair>(ta, tb, m, n, k, 2.0f, x.a.data(), lda, x.b.data(), ldb,
                                                             beta, wide.data(), n);
          ct::detail::gemm_packed<ct::detail::bfloat16_pair>(ta, tb, m, n, k, 2.0f, x.a.data(), lda, x.b.data(), ldb,
                                                             beta, narrow.data(), n);
          CHECK(distance(wide, expected) <= 1e-6);
          CHECK(distance(narrow, expected) <= rounding<ct::bfloat16>);
        }
      }
}

TEST_CASE("16-bit GEMMs: a subnormal result is rounded alike in every column") {
  for (std::int64_t n : {1, 15, 16, 17, 31, 32, 33, 50}) {
    CAPTURE(n);
    std::vector<ct::bfloat16> const a(1, ct::bfloat16(0x1p-63f)), b(static_cast<std::size_t>(n), a[0]);
    std::vector<ct::bfloat16> c(b.size());
    ct::gemm_builtin(ct::transpose::no, ct::transpose::no, 1, n, 1, 0.25f, a.data(), 1, b.data(), n, 0, c.data(), n);
    for (auto const x : c) CHECK(x.bits == c[0].bits);
  }
}

TEST_CASE("16-bit GEMMs: elements outside the matrices of bf16 pairs do not matter, even if they are NaN") {
  constexpr std::int64_t m = 3, n = 5, k = 7, stride = 12;
  for (auto t : {ct::transpose::no, ct::transpose::yes}) {
    bool const yes = t == ct::transpose::yes;
    std::vector<ct::bfloat16> a(stride * stride, ct::bfloat16(std::nanf(""))), b(a), c(m * n, a[0]);
    auto const fill = [](std::vector<ct::bfloat16>& of, std::int64_t rows, std::int64_t columns, float value) {
      for (std::int64_t i = 0; i < rows * columns; ++i)
        of[static_cast<std::size_t>(i / columns * stride + i % columns)] = ct::bfloat16(value);
    };
    fill(a, yes ? k : m, yes ? m : k, 1);
    fill(b, yes ? n : k, yes ? k : n, 2);
    ct::detail::gemm_packed<ct::detail::bfloat16_pair>(t, t, m, n, k, 1.0f, a.data(), stride, b.data(), stride, 0.0f,
                                                       c.data(), n);
    for (auto const x : c) CHECK(float(x) == 14);
  }
}
#endif
