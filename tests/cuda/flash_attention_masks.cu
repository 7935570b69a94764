// Flash attention with sliding windows and documents on the device against attention in fp64 on the host.

#include <doctest/doctest.h>

#include "cuda/flash_on_device.hpp"

#include <cstdint>

namespace ct = constrain;
using namespace constrain::test;

namespace {

flash_distances bf16{"bf16"}, fp16{"fp16"}, fp32{"fp32"}, fp64{"fp64"};

ct::attention_options masked(int heads, bool causal, int window, bool documents, int key_value_heads = 0) {
  return {
      .heads = heads, .causal = causal, .key_value_heads = key_value_heads, .window = window, .documents = documents};
}

} // namespace

TEST_CASE("flash attention in a sliding window") {
  for (bool const causal : {true, false}) {
    for (int const window : {1, 5, 64, 100}) {
      check_flash<ct::bfloat16>({1, 257, 32, masked(1, causal, window, false)}, bf16);
      check_flash<ct::float16>({1, 150, 64, masked(2, causal, window, false, 1)}, fp16);
      check_flash<float>({1, 131, 16, masked(1, causal, window, false)}, fp32);
    }
    check_flash<ct::float16>({1, 150, 160, masked(2, causal, 40, false, 1)}, fp16); // two chunks of columns
    check_flash<ct::bfloat16>({1, 141, 128, masked(1, causal, 40, false)}, bf16);
    check_flash<ct::float16>({1, 66, 24, masked(3, causal, 7, false), false}, fp16);
    check_flash<double>({1, 70, 9, masked(1, causal, 33, false)}, fp64);
  }
}

// Queries after the end of a sequence, whose window holds only padding, attend to no key.
TEST_CASE("flash attention of padded sequences in a sliding window") {
  for (bool const causal : {true, false}) {
    check_flash<ct::bfloat16>({5, 150, 32, masked(2, causal, 9, false, 1), true, true}, bf16);
    check_flash<ct::float16>({5, 70, 160, masked(1, causal, 20, false), true, true}, fp16);
    check_flash<float>({5, 129, 16, masked(1, causal, 40, false), true, true}, fp32);
    check_flash<double>({5, 65, 9, masked(1, causal, 3, false), true, true}, fp64);
  }
}

TEST_CASE("flash attention of documents") {
  for (bool const causal : {true, false})
    for (int const window : {0, 30}) {
      for (std::int64_t const tokens : {1, 31, 64, 129, 257})
        check_flash<ct::bfloat16>({2, tokens, 32, masked(2, causal, window, true, 1)}, bf16);
      check_flash<ct::float16>({3, 150, 64, masked(1, causal, window, true)}, fp16);
      check_flash<ct::float16>({1, 70, 160, masked(2, causal, window, true, 1)}, fp16); // two chunks of columns
      check_flash<ct::bfloat16>({1, 130, 128, masked(1, causal, window, true), false}, bf16);
      check_flash<float>({2, 129, 16, masked(2, causal, window, true, 1)}, fp32);
      check_flash<double>({2, 65, 9, masked(1, causal, window, true)}, fp64);
    }
}
