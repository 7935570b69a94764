#include <constrain/device/cpu/gemm.hpp>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

// Products of bf16 matrices: sums in float, rounded once. The provider's and the built-in one give the same answer.

namespace ct = constrain;

namespace {

struct matrices {
  std::vector<ct::bfloat16> a, b;
  std::vector<float> wide_a, wide_b;

  matrices(std::size_t a_size, std::size_t b_size) : a(a_size), b(b_size), wide_a(a_size), wide_b(b_size) {
    std::mt19937 random(9);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < a_size; ++i) wide_a[i] = a[i] = ct::bfloat16(normal(random));
    for (std::size_t i = 0; i < b_size; ++i) wide_b[i] = b[i] = ct::bfloat16(normal(random));
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

void compare(ct::transpose ta, ct::transpose tb, std::int64_t m, std::int64_t n, std::int64_t k) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  matrices const x(static_cast<std::size_t>(m * k), static_cast<std::size_t>(k * n));
  auto const lda = ta == ct::transpose::yes ? m : k, ldb = tb == ct::transpose::yes ? k : n;
  auto const size = static_cast<std::size_t>(m * n);
  for (float beta : {0.0f, 1.0f}) {
    std::vector<float> expected(size, 0.5f), wide(size, 0.5f), wide_builtin(size, 0.5f);
    std::vector<ct::bfloat16> narrow(size, ct::bfloat16(0.5f)), narrow_builtin(narrow);
    ct::gemm_builtin(ta, tb, m, n, k, 1, x.wide_a.data(), lda, x.wide_b.data(), ldb, beta, expected.data(), n);
    ct::gemm(ta, tb, m, n, k, 1, x.a.data(), lda, x.b.data(), ldb, beta, wide.data(), n);
    ct::gemm(ta, tb, m, n, k, 1, x.a.data(), lda, x.b.data(), ldb, beta, narrow.data(), n);
    ct::gemm_builtin(ta, tb, m, n, k, 1, x.a.data(), lda, x.b.data(), ldb, beta, wide_builtin.data(), n);
    ct::gemm_builtin(ta, tb, m, n, k, 1, x.a.data(), lda, x.b.data(), ldb, beta, narrow_builtin.data(), n);
    CHECK(distance(wide, expected) <= 1e-5);
    CHECK(distance(wide_builtin, expected) <= 1e-6);
    CHECK(distance(narrow, expected) <= 4e-3); // one rounding: 2^-9 at most an element
    CHECK(distance(narrow_builtin, expected) <= 4e-3);
  }
}

} // namespace

TEST_CASE("bf16 products: every transposition, odd sizes, float and bf16 results") {
  std::printf("bf16 products by %s\n", ct::gemm_provider());
  for (auto ta : {ct::transpose::no, ct::transpose::yes})
    for (auto tb : {ct::transpose::no, ct::transpose::yes}) {
      compare(ta, tb, 1, 1, 1);
      compare(ta, tb, 17, 33, 65);
      compare(ta, tb, 64, 48, 300);
      compare(ta, tb, 150, 270, 520); // several tiles and depths
      compare(ta, tb, 600, 40, 30);   // more rows than are packed at a time
    }
}

TEST_CASE("bf16 products: mixed operands and strides") {
  // P (float) times V (bf16, every third row of a wider matrix), as attention needs it.
  constexpr std::int64_t m = 9, n = 7, k = 11, stride = 30;
  matrices const x(1, k * stride);
  std::vector<float> p(m * k), expected(m * n), wide(m * n);
  std::vector<ct::bfloat16> narrow(m * n);
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = std::sin(static_cast<float>(i));
  ct::gemm_builtin(ct::transpose::no, ct::transpose::no, m, n, k, 0.5f, p.data(), k, x.wide_b.data(), stride, 0,
                   expected.data(), n);
  ct::gemm(ct::transpose::no, ct::transpose::no, m, n, k, 0.5f, p.data(), k, x.b.data(), stride, 0, wide.data(), n);
  ct::gemm(ct::transpose::no, ct::transpose::no, m, n, k, 0.5f, p.data(), k, x.b.data(), stride, 0, narrow.data(), n);
  CHECK(distance(wide, expected) <= 1e-6);
  CHECK(distance(narrow, expected) <= 4e-3);
}
