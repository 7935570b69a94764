// Flash attention on the device against attention in fp64 on the host, at sizes around those of the tiles.

#include <doctest/doctest.h>

#include "cuda/flash_on_device.hpp"

namespace ct = constrain;
using namespace constrain::test;

namespace {

flash_distances bf16{"bf16"}, fp16{"fp16"}, fp32{"fp32"}, fp64{"fp64"};

} // namespace

TEST_CASE("flash attention of 16-bit elements: tokens around the borders of tiles") {
  int i = 0;
  for (std::int64_t tokens : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129}) {
    std::int64_t const head_width = 32 << i % 3;
    check_flash<ct::bfloat16>({1, tokens, head_width, {1, i % 2 == 0}}, bf16);
    if (i++ % 3 == 0) check_flash<ct::float16>({1, tokens, head_width, {1, i % 2 == 0}}, fp16);
  }
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
