// Flash attention on the device against attention in fp64 on the host, at sizes around those of the tiles.

#include <doctest/doctest.h>

#include "cuda/flash_on_device.hpp"
#include "sanitizers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

flash_distances bf16{"bf16"}, fp16{"fp16"}, fp32{"fp32"}, fp64{"fp64"};

/// Checks one of 8 cases (causal or not, padded or not, shared keys or not), with heads of 32, 64 or 128 elements.
void check_case(std::int64_t tokens, int number, int width, int type) {
  bool const causal = number % 2 == 0, padded = number / 2 % 2 == 0, shares_keys = number / 4 % 2 == 0;
  ct::attention_options const options{shares_keys ? 2 : 1, causal, shares_keys ? 1 : 0};
  flash_case const f{padded ? 3 : 1, tokens, 32 << width % 3, options, true, padded};
  if (type % 3 == 0) check_flash<ct::bfloat16>(f, bf16);
  else if (type % 3 == 1) check_flash<ct::float16>(f, fp16);
  else check_flash<float>(f, fp32);
}

} // namespace

// Numbers of tokens around the borders of tiles, each with every width, type and kind of mask. Sanitizers check one
// case for each number.
TEST_CASE("flash attention around the borders of tiles") {
  std::int64_t const borders[] = {1,  2,   15,  16,  17,  31,  32,  33,  63,  64,
                                  65, 127, 128, 129, 191, 192, 193, 255, 256, 257};
  std::set<std::array<int, 3>> pairs; // width, type and number modulo 8, two at a time
  int index = 0;
  for (auto const tokens : borders) {
    for (int width = 0; width < (under_sanitizer ? 1 : 3); ++width) {
      // Each bit of the three numbers takes both values.
      int const number = (3 * index + 5 * width) % 8, type = (width + index) % 3;
      check_case(tokens, number, width, type);
      pairs.insert({{0, width, type}}), pairs.insert({{1, width, number}}), pairs.insert({{2, type, number}});
    }
    ++index;
  }
  if (!under_sanitizer) CHECK(pairs.size() == 3 * 3 + 3 * 8 + 3 * 8);
}

TEST_CASE("flash attention of 16-bit elements: heads that share keys, of any width, at any place") {
  for (bool const causal : {true, false}) {
    check_flash<ct::bfloat16>({2, 70, 32, {6, causal, 2}}, bf16);
    check_flash<ct::float16>({1, 66, 24, {3, causal}}, fp16);         // a width that the tiles pad, rows of 16 bytes
    check_flash<ct::bfloat16>({2, 37, 13, {2, causal, 1}}, bf16);     // rows that begin anywhere
    check_flash<ct::float16>({1, 65, 64, {2, causal}, false}, fp16);  // the same, though the width is a tile's
    check_flash<ct::bfloat16>({1, 67, 160, {2, causal, 1}}, bf16);    // two chunks of columns
    check_flash<ct::float16>({1, 35, 300, {1, causal}, false}, fp16); // three
  }
}

// The sums are rescaled when a score exceeds its row's reference by more than 2^8. With a larger deviation, some rows
// do so after their first tile of keys.
TEST_CASE("flash attention of scores that grow from one tile to the next") {
  for (bool const causal : {true, false}) {
    check_flash<ct::bfloat16>({1, 130, 64, {1, causal}, true, false, 3}, bf16);
    check_flash<ct::float16>({1, 130, 32, {1, causal}, true, false, 3}, fp16);
  }
  check_flash<float>({1, 100, 16, {1, false}, true, false, 3}, fp32);
}

TEST_CASE("flash attention of padded sequences") {
  for (bool const causal : {true, false}) {
    for (std::int64_t const tokens : {1, 31, 64, 129, 150})
      check_flash<ct::bfloat16>({5, tokens, 32, {2, causal, 1}, true, true}, bf16);
    check_flash<ct::float16>({5, 66, 24, {3, causal}, false, true}, fp16);
    check_flash<ct::float16>({5, 70, 160, {2, causal, 1}, true, true}, fp16); // two chunks of columns
    check_flash<ct::bfloat16>({5, 130, 64, {1, causal}, true, true}, bf16);
    check_flash<float>({5, 129, 16, {2, causal, 1}, true, true}, fp32);
    check_flash<double>({5, 65, 9, {1, causal}, true, true}, fp64);
  }
}

TEST_CASE("flash attention of wide elements") {
  for (bool const causal : {true, false}) {
    int i = 0;
    for (std::int64_t tokens : {1, 31, 33, 64, 65, 129})
      check_flash<float>({1, tokens, 16 << i++ % 3, {1, causal}}, fp32);
    check_flash<float>({2, 41, 12, {4, causal, 2}}, fp32);
    check_flash<float>({1, 66, 150, {1, causal}, false}, fp32); // three chunks
    for (std::int64_t tokens : {1, 32, 65, 130}) check_flash<double>({1, tokens, 32, {1, causal}}, fp64);
    check_flash<double>({1, 35, 9, {3, causal, 1}, false}, fp64);
    check_flash<double>({1, 34, 70, {1, causal}}, fp64);
  }
}

// With CONSTRAIN_EXHAUSTIVE, every number of tokens from its value to 257 in all 8 cases; nine consecutive numbers have
// each case in all widths and types. Sanitizers check one case for each number of tokens; 72 consecutive numbers have
// all.
TEST_CASE("flash attention of every number of tokens") {
  auto const* const first = std::getenv("CONSTRAIN_EXHAUSTIVE");
  if (first == nullptr) return;
  for (int tokens = std::max(1, std::atoi(first)); tokens <= 257; ++tokens) {
    if (under_sanitizer) check_case(tokens, tokens, tokens / 8, tokens / 24);
    else
      for (int number = 0; number < 8; ++number) check_case(tokens, number, tokens + number, tokens / 3);
    std::printf("flash attention of %d tokens was checked\n", tokens);
    std::fflush(stdout);
  }
}

namespace {

/// Whether flash attention and its gradient have finite results for head width `width`. `value(token, part)`: the
/// elements of q (part 0), k (1) and v (2) of a token.
template <class T, class function>
bool is_finite(std::int64_t tokens, std::int64_t width, double dy, function const& value) {
  std::vector<T> qkv;
  for (std::int64_t token = 0; token < tokens; ++token)
    for (int part = 0; part < 3; ++part)
      qkv.insert(qkv.end(), static_cast<std::size_t>(width), static_cast<ct::arithmetic<T>>(value(token, part)));
  ct::shape const wide(1, tokens, 3 * width), narrow(1, tokens, width);
  std::vector<T> const gradient(static_cast<std::size_t>(tokens * width), static_cast<ct::arithmetic<T>>(dy));
  flash_on_device<T> const got({1, tokens, width, {1, false}}, {wide, qkv}, {narrow, gradient});
  for (auto const& all : {in_double(got.y), in_double(got.dqkv)})
    for (auto const x : all)
      if (!std::isfinite(x)) return false;
  return true;
}

} // namespace

TEST_CASE("the gradient of scores is scaled before it is rounded to fp16") {
  // Each gradient of a score is 76800 before it is divided by sqrt(64).
  CHECK(is_finite<ct::float16>(2, 64, 600, [](std::int64_t token, int part) {
    bool const first = token == 0;
    return part == 0 ? 0.01 : part == 1 ? (first ? 0.01 : 0.02) : first ? 4.0 : -4.0;
  }));
}

TEST_CASE("keys whose scores are -infinity have probability 0") {
  CHECK(is_finite<float>(65, 16, 1, [](std::int64_t token, int part) {
    if (token == 64) return part == 0 ? 1e20 : part == 1 ? 1e-20 : 1.0;
    return part == 0 ? 1e-20 : part == 1 ? -1e20 : 1.0;
  }));
}
