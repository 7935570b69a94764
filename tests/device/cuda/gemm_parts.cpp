#include <constrain/device/cuda/gemm_parts.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

using namespace constrain;

namespace {

constexpr auto no = transpose::no, yes = transpose::yes;
constexpr gemm_extents logits{64 * 1024, 50257, 768}, padded{64 * 1024, 50304, 768};

// The head of GPT-2 124M at 64 x 1024 tokens: its logits have 3.3e9 elements.
static_assert(part_of_gemm(no, yes, logits) == gemm_extents{32768, 50257, 768, 768, 768, 50257});
// In padded rows: the distances count, not the elements that are used.
constexpr gemm_extents in_rows{.m = 42700, .n = 50257, .k = 768, .ldc = 50304};
static_assert(part_of_gemm(no, yes, in_rows).ldc == 50304 && gemm_parts(no, yes, in_rows) == 4); // 2 of m, 2 of n
static_assert(gemm_parts(no, yes, {42700, 50257, 768}) == 1);
static_assert(with_leading_dimensions(yes, no, {3, 5, 7}) == gemm_extents{3, 5, 7, 3, 5, 5});
// The rest of padded rows is a part of its own, in whichever dimension the rows are contiguous: of the logits, of the
// gradient of the inputs, and of that of the weight.
static_assert(part_of_gemm(no, yes, {.m = 4096, .n = 50257, .k = 768, .ldc = 50304}).n == 50256);
static_assert(part_of_gemm(no, no, {.m = 4096, .n = 768, .k = 50257, .lda = 50304}).k == 50256);
static_assert(part_of_gemm(yes, no, {.m = 50257, .n = 768, .k = 4096, .lda = 50304}).m == 50256);
// Not if the rows are not padded, if those of the other matrix are not, or if the GEMM is small.
static_assert(gemm_parts(no, no, {.m = 4096, .n = 768, .k = 50257}) == 1);
static_assert(gemm_parts(no, yes, {.m = 4096, .n = 768, .k = 50257, .lda = 50304}) == 1);
static_assert(gemm_parts(no, yes, {.m = 4096, .n = 768, .k = 50257, .lda = 50304, .ldb = 50264}) == 2);
static_assert(gemm_parts(no, yes, {.m = 4096, .n = 257, .k = 509, .ldc = 264}) == 1);
static_assert(gemm_parts(no, yes, {.m = 4096, .n = 257, .k = 512, .ldc = 264}) == 2);
static_assert(gemm_parts(no, yes, {.m = 65536, .n = 7, .k = 2048, .ldc = 8}) == 1);
static_assert(allows_bias(no, yes, {5, 8, 3}, 2) && !allows_bias(no, yes, {5, 12, 3}, 2));
static_assert(gemm_parts(no, yes, logits) == 2 && gemm_parts(no, yes, padded) == 2);
static_assert(gemm_parts(no, no, {64 * 1024, 768, 50257}) == 2);          // of x
static_assert(part_of_gemm(yes, no, {50257, 768, 64 * 1024}).k == 32768); // of the weight: added in two parts
static_assert(gemm_parts(no, yes, {16 * 1024, 50257, 768}) == 1);
static_assert(gemm_parts(no, yes, {0, 50257, 768}) == 0);
// From 2^31 elements on, and not before.
static_assert(gemm_parts(no, no, {1 << 16, (1 << 15) - 1, 8}) == 1 && gemm_parts(no, no, {1 << 16, 1 << 15, 8}) == 2);
static_assert(gemm_parts(no, no, {8, 8, std::int64_t{1} << 29}) == 9); // A is cut along m, B along k

static_assert(alignment_class(512) == 256 && alignment_class(0) == 256 && alignment_class(128) == 16);
static_assert(alignment_class(24) == 8 && alignment_class(4) == 4 && alignment_class(6) == 2 &&
              alignment_class(7) == 1);

/// From a matrix's first element to its last one.
constexpr std::int64_t span(std::int64_t rows, std::int64_t columns, std::int64_t leading) {
  return (rows - 1) * leading + columns;
}

} // namespace

TEST_CASE("no part spans as many elements as the limit") {
  std::int64_t cut = 0;
  for (std::int64_t limit : {50, 1000, 70000})
    for (std::int64_t m : {1, 7, 300, 1025})
      for (std::int64_t n : {1, 40, 513})
        for (std::int64_t k : {1, 33, 512})
          for (auto const ta : {no, yes})
            for (auto const tb : {no, yes}) {
              auto const part = part_of_gemm(ta, tb, {m, n, k}, {.elements = limit});
              CAPTURE(limit);
              CAPTURE(m);
              CAPTURE(n);
              CAPTURE(k);
              CHECK(std::min({part.m, part.n, part.k}) >= 1);
              auto const lda = ta == yes ? m : k, ldb = tb == yes ? k : n;
              auto const of_a = ta == yes ? span(part.k, part.m, lda) : span(part.m, part.k, lda);
              auto const of_b = tb == yes ? span(part.n, part.k, ldb) : span(part.k, part.n, ldb);
              // A row is not cut, so a part has one row at least.
              CHECK(of_a < std::max(limit, lda + 1));
              CHECK(of_b < std::max(limit, ldb + 1));
              CHECK(span(part.m, part.n, n) < std::max(limit, n + 1));
              auto const parts = gemm_parts(ta, tb, {m, n, k}, {.elements = limit});
              CHECK(parts >= 1);
              cut += parts > 1;
            }
  CHECK(cut > 100);
}
