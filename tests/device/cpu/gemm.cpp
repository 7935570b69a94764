#include "constrain/device/cpu/gemm.hpp"

#include <doctest/doctest.h>

#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace ct = constrain;

namespace {

void use_threads([[maybe_unused]] int threads) {
#if defined(_OPENMP)
  omp_set_num_threads(threads);
#endif
}

/// One product with its operands: values in [-1, 1], rows `slack` longer than needed, the slack NaN.
template <class real> struct problem {
  bool ta, tb;
  std::int64_t m, n, k, lda, ldb, ldc;
  real alpha, beta;
  std::vector<real> a, b, c;

  problem(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, real alpha, real beta, std::int64_t slack)
      : ta(ta), tb(tb), m(m), n(n), k(k), lda((ta ? m : k) + slack), ldb((tb ? k : n) + slack), ldc(n + slack),
        alpha(alpha), beta(beta) {
    a = fill(ta ? k : m, ta ? m : k, lda);
    b = fill(tb ? n : k, tb ? k : n, ldb);
    c = fill(m, n, ldc);
    if (beta == 0) // must not be read
      for (real& x : c) x = std::numeric_limits<real>::quiet_NaN();
  }

  static std::vector<real> fill(std::int64_t rows, std::int64_t columns, std::int64_t leading) {
    std::mt19937 bits(static_cast<unsigned>(rows * 31 + columns));
    std::vector<real> out(static_cast<std::size_t>(rows * leading), std::numeric_limits<real>::quiet_NaN());
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        out[static_cast<std::size_t>(i * leading + j)] = static_cast<real>(bits() / 2147483648.0 - 1);
    return out;
  }

  template <class product> std::vector<real> run(product const& multiply) const {
    auto out = c;
    multiply(ct::transpose{ta}, ct::transpose{tb}, m, n, k, alpha, a.data(), lda, b.data(), ldb, beta, out.data(), ldc);
    return out;
  }

  /// The largest error, as a multiple of what rounding every step of the longest sum could cost; infinite where an
  /// element outside of C changed.
  double error(std::vector<real> const& out) const {
    double worst = 0;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < ldc; ++j) {
        auto const at = static_cast<std::size_t>(i * ldc + j);
        if (j >= n) {
          if (!std::isnan(out[at])) return std::numeric_limits<double>::infinity();
          continue;
        }
        long double sum = 0, size = 0;
        for (std::int64_t p = 0; p < k; ++p) {
          long double const x = static_cast<long double>(a[static_cast<std::size_t>(ta ? p * lda + i : i * lda + p)]) *
                                b[static_cast<std::size_t>(tb ? j * ldb + p : p * ldb + j)];
          sum += x;
          size += std::abs(x);
        }
        long double const before = beta == 0 ? 0 : static_cast<long double>(beta) * c[at];
        long double const bound = (std::abs(alpha) * size + std::abs(before)) * static_cast<long double>(k + 3) *
                                      std::numeric_limits<real>::epsilon() / 2 +
                                  std::numeric_limits<real>::denorm_min();
        long double const off = std::abs(out[at] - (alpha * sum + before)) / bound;
        if (!(off <= worst)) worst = static_cast<double>(off);
      }
    return worst;
  }
};

template <class real> constexpr auto any_provider = [](auto... arguments) { ct::gemm<real>(arguments...); };
template <class real> constexpr auto built_in = [](auto... arguments) { ct::gemm_builtin<real>(arguments...); };

struct shape {
  std::int64_t m, n, k;
};

} // namespace

TEST_CASE_TEMPLATE("products match the definition", real, float, double) {
  INFO("provider: ", std::string(ct::gemm_provider()));
  for (shape const s : {shape{1, 1, 1},
                        {1, 33, 5},
                        {3, 2, 0},
                        {7, 31, 1},
                        {13, 32, 17},
                        {14, 32, 16},
                        {15, 65, 3},
                        {29, 64, 257},
                        {37, 1, 40},
                        {145, 43, 31},
                        {31, 259, 20},
                        {64, 64, 64},
                        {530, 20, 7}})
    for (bool const ta : {false, true})
      for (bool const tb : {false, true})
        for (real const alpha : {real(1), real(-0.7)})
          for (real const beta : {real(0), real(1), real(0.3)})
            for (std::int64_t const slack : {0, 3}) {
              problem<real> const p(ta, tb, s.m, s.n, s.k, alpha, beta, slack);
              CAPTURE(s.m);
              CAPTURE(s.n);
              CAPTURE(s.k);
              CAPTURE(ta);
              CAPTURE(tb);
              REQUIRE(p.error(p.run(any_provider<real>)) <= 1);
              REQUIRE(p.error(p.run(built_in<real>)) <= 1);
            }
}

// Compiled for AVX512-BF16, `gemm` uses the built-in GEMM for only the second of these.
TEST_CASE("float products match the definition on both sides of the size that decides about the provider") {
  constexpr bool has_bf16 = ct::detail::multiplies_pairs || ct::detail::compiled_for_avx512_fp16;
  for (shape const s : {shape{64, 256, 2047}, {64, 256, 2048}})
    for (bool const t : {false, true}) {
      CAPTURE(s.k);
      CAPTURE(t);
      CHECK(ct::detail::prefers_builtin_gemm(s.m, s.n, s.k) == (has_bf16 && s.k == 2048));
      problem<float> const p(t, !t, s.m, s.n, s.k, 1, 0.3f, 3);
      CHECK(p.error(p.run(any_provider<float>)) <= 1);
    }
}

TEST_CASE_TEMPLATE("if alpha is 0, A and B are not read, and C only if beta is not 0", real, float, double) {
  for (bool const t : {false, true})
    for (real const beta : {real(0), real(0.3)}) {
      CAPTURE(t);
      CAPTURE(beta);
      problem<real> p(false, t, 63, 800, 800, 0, beta, 0);
      for (auto* const operand : {&p.a, &p.b})
        for (real& x : *operand) x = std::numeric_limits<real>::quiet_NaN();
      auto const out = p.run(any_provider<real>);
      bool is_scaled = true;
      for (std::size_t i = 0; i < out.size(); ++i) is_scaled &= out[i] == (beta == 0 ? 0 : beta * p.c[i]);
      CHECK(is_scaled);
    }
}

TEST_CASE_TEMPLATE("every extent of a tail is right", real, float, double) {
  for (std::int64_t extent = 1; extent <= 70; ++extent)
    for (bool const t : {false, true}) {
      CAPTURE(extent);
      problem<real> const wide(t, !t, 9, extent, 5, 1, 0, 1), tall(!t, t, extent, 9, 5, 1, 1, 1),
          deep(t, t, 9, 9, extent, 1, 0, 1);
      REQUIRE(wide.error(wide.run(built_in<real>)) <= 1);
      REQUIRE(tall.error(tall.run(built_in<real>)) <= 1);
      REQUIRE(deep.error(deep.run(built_in<real>)) <= 1);
    }
}

TEST_CASE_TEMPLATE("full packing buffers are right", real, float, double) {
  for (std::int64_t const rows : {256, 512})
    for (int const combination : {0, 1, 2, 3}) {
      problem<real> const p(combination & 1, combination & 2, rows, 35, 400, 1, 0, 0);
      CHECK(p.error(p.run(built_in<real>)) <= 1);
    }
}

TEST_CASE_TEMPLATE("a NaN or an infinity reaches only its row or column of C", real, float, double) {
  for (std::int64_t const rows : {5, 15, 16, 29, 70, 71})
    for (std::int64_t const columns : {32, 33})
      for (int const combination : {0, 1, 2, 3}) {
        problem<real> clean(combination & 1, combination & 2, rows, columns, 40, 1, real(0.5), 0);
        auto spoiled = clean;
        std::int64_t const row = rows / 2, column = columns / 2;
        for (std::int64_t p = 0; p < 40; ++p) {
          auto const of_a = combination & 1 ? p * clean.lda + row : row * clean.lda + p;
          auto const of_b = combination & 2 ? column * clean.ldb + p : p * clean.ldb + column;
          spoiled.a[static_cast<std::size_t>(of_a)] = std::numeric_limits<real>::quiet_NaN();
          spoiled.b[static_cast<std::size_t>(of_b)] = std::numeric_limits<real>::infinity();
        }
        auto const expected = clean.run(built_in<real>), out = spoiled.run(built_in<real>);
        int differences = 0;
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < columns; ++j) {
            auto const at = static_cast<std::size_t>(i * clean.ldc + j);
            if (i != row && j != column) differences += out[at] != expected[at];
          }
        CHECK(differences == 0);
        CHECK(std::isnan(out[static_cast<std::size_t>(row * clean.ldc)]));
      }
}

/// `count` elements of value 1; a page that cannot be read follows the last one.
template <class T> class guarded_array {
public:
  explicit guarded_array(std::int64_t count) : bytes_((count * sizeof(T) + page - 1) / page * page) {
    block_ =
        static_cast<char*>(mmap(nullptr, bytes_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(mprotect(block_ + bytes_, page, PROT_NONE) == 0);
    first_ = reinterpret_cast<T*>(block_ + bytes_ - count * sizeof(T));
    std::fill(first_, first_ + count, T(1));
  }
  guarded_array(guarded_array const&) = delete;
  ~guarded_array() { munmap(block_, bytes_ + page); }
  T* data() { return first_; }

private:
  static constexpr std::size_t page = 4096;
  std::size_t bytes_;
  char* block_;
  T* first_;
};

TEST_CASE_TEMPLATE("the built-in GEMM reads nothing behind its operands", T, float, double, ct::bfloat16, ct::float16) {
  using real = ct::arithmetic<T>;
  auto const yes = ct::transpose::yes;
  for (std::int64_t m : {1, 27 * ct::thread_count(), 28 * ct::thread_count()})
    for (std::int64_t n : {31, 33, 64, 97})
      for (std::int64_t k : {1, 7, 16, 33})
        for (int transposed = 0; transposed < 4; ++transposed) {
          auto const ta = transposed & 1 ? yes : ct::transpose::no, tb = transposed & 2 ? yes : ct::transpose::no;
          guarded_array<T> a(m * k), b(k * n);
          guarded_array<real> c(m * n);
          ct::gemm_builtin(ta, tb, m, n, k, 1, a.data(), ta == yes ? m : k, b.data(), tb == yes ? k : n, 0, c.data(),
                           n);
          CHECK(std::all_of(c.data(), c.data() + m * n, [=](real x) { return x == real(k); }));
        }
}

TEST_CASE_TEMPLATE("alpha 0 and k 0 leave beta C", real, float, double) {
  for (real const beta : {real(0), real(2)}) {
    problem<real> p(false, true, 5, 7, 4, 0, beta, 2);
    p.a.assign(p.a.size(), std::numeric_limits<real>::quiet_NaN()); // not read either
    auto const out = p.run(built_in<real>);
    for (std::int64_t i = 0; i < 5; ++i)
      for (std::int64_t j = 0; j < 7; ++j) {
        auto const at = static_cast<std::size_t>(i * p.ldc + j);
        CHECK(out[at] == (beta == 0 ? real(0) : beta * p.c[at]));
      }
  }
  for (real const alpha : {real(1), std::numeric_limits<real>::infinity()}) {
    real c = 3;
    ct::gemm<real>(ct::transpose::no, ct::transpose::no, 1, 1, 0, alpha, &c, 1, &c, 1, 2, &c, 1);
    CHECK(c == 6);
  }
  real untouched = 3;
  ct::gemm<real>(ct::transpose::no, ct::transpose::no, 0, 1, 1, 1, &untouched, 1, &untouched, 1, 0, &untouched, 1);
  CHECK(untouched == 3);
}

TEST_CASE_TEMPLATE("the built-in GEMM is bit-identical on any number of threads", real, float, double) {
  int const before = ct::thread_count();
  for (shape const s : {shape{203, 331, 300}, {512, 40, 65}, {20, 600, 513}, {1, 700, 33}, {1200, 20, 270}})
    for (int const combination : {0, 1, 2, 3}) {
      problem<real> const p(combination & 1, combination & 2, s.m, s.n, s.k, real(0.9), real(0.4), 1);
      use_threads(1);
      auto const expected = p.run(built_in<real>);
      for (int const threads : {2, 3, 4}) {
        use_threads(threads);
        auto const out = p.run(built_in<real>);
        CHECK(std::memcmp(out.data(), expected.data(), out.size() * sizeof(real)) == 0);
      }
      std::vector<std::vector<real>> inside(2);
      ct::parallel_for(2, [&](std::int64_t index) { inside[static_cast<std::size_t>(index)] = p.run(built_in<real>); });
      for (auto const& out : inside) CHECK(std::memcmp(out.data(), expected.data(), out.size() * sizeof(real)) == 0);
    }
  use_threads(before);
}

TEST_CASE_TEMPLATE("a row of the built-in GEMM does not depend on the other rows", real, float, double) {
  for (std::int64_t const columns : {50, 64, 600})
    for (int const combination : {0, 1, 2, 3}) {
      problem<real> const p(combination & 1, combination & 2, 75, columns, 290, real(1.1), real(0.6), 0);
      auto const whole = p.run(built_in<real>);
      for (std::int64_t rows = 1; rows < p.m; ++rows) {
        auto part = p;
        part.m = rows;
        auto const out = part.run(built_in<real>);
        REQUIRE(std::memcmp(out.data(), whole.data(), static_cast<std::size_t>(rows * p.ldc) * sizeof(real)) == 0);
      }
    }
}

#if defined(__AVX512F__)
TEST_CASE("a GEMM of few rows has the bits of any other, and accesses nothing behind its operands") {
  auto const few_rows = [](ct::transpose, ct::transpose, auto... arguments) {
    ct::detail::gemm_few_rows(arguments...);
  };
  auto const tile = [](auto... arguments) { ct::detail::gemm_tile<float>(arguments...); };
  // With 91 rows, the packing buffer holds 2304 of the elements along k.
  for (shape const s : {shape{91, 100, 2700}, {32, 78, 1}, {27, 300, 384}, {64, 81, 385}, {70, 99, 800}})
    for (float const beta : {0.0f, 0.4f}) {
      problem<float> const p(false, true, s.m, s.n, s.k, 0.9f, beta, 3);
      auto const out = p.run(few_rows), expected = p.run(tile);
      CHECK(p.error(out) < 1);
      CHECK(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)) == 0);
    }
  for (std::int64_t const m : {1, 27, 32, 64})
    for (std::int64_t const n : {78, 96, 97})
      for (std::int64_t const k : {1, 17, 400}) {
        guarded_array<float> a(m * k), b(n * k), c(m * n);
        for (float const beta : {0.0f, 1.0f}) {
          ct::detail::gemm_few_rows(m, n, k, 1, a.data(), k, b.data(), k, beta, c.data(), n);
          float const expected = beta == 0 ? k : 2 * k;
          CHECK(std::all_of(c.data(), c.data() + m * n, [=](float x) { return x == expected; }));
        }
      }
}
#endif

TEST_CASE("a leading dimension shorter than its row is refused in a sentence") {
  float x[16] = {};
  auto const message = [&](std::int64_t lda, std::int64_t ldb, std::int64_t ldc) -> std::string {
    try {
      ct::gemm<float>(ct::transpose::no, ct::transpose::yes, 2, 3, 4, 1, x, lda, x, ldb, 0, x, ldc);
    } catch (ct::error const& e) { return e.what(); }
    return "";
  };
  CHECK(message(3, 4, 3) ==
        "gemm: the leading dimension of A is 3, but its rows have 4 elements; pass a leading dimension of at least 4");
  CHECK(message(4, 3, 3) ==
        "gemm: the leading dimension of B is 3, but its rows have 4 elements; pass a leading dimension of at least 4");
  CHECK(message(4, 4, 2) ==
        "gemm: the leading dimension of C is 2, but its rows have 3 elements; pass a leading dimension of at least 3");
}
