// Flash attention with sliding windows and documents on the device against attention in fp64 on the host.

#include <doctest/doctest.h>

#include "cuda/flash_on_device.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

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
    for (int const window : {1, 5, 100})
      check_flash<ct::bfloat16>({1, 257, 32, masked(1, causal, window, false)}, bf16);
    for (int const window : {1, 64}) {
      check_flash<ct::float16>({1, 150, 64, masked(2, causal, window, false, 1)}, fp16);
      check_flash<float>({1, 131, 16, masked(1, causal, window, false)}, fp32);
    }
    check_flash<ct::float16>({1, 90, 160, masked(2, causal, 40, false, 1)}, fp16); // two chunks of columns
    check_flash<ct::bfloat16>({1, 141, 128, masked(1, causal, 40, false)}, bf16);
    check_flash<ct::float16>({1, 66, 24, masked(3, causal, 7, false), false}, fp16);
    check_flash<double>({1, 70, 9, masked(1, causal, 33, false)}, fp64);
  }
}

// Queries after the end of a sequence, whose window holds only padding, attend to no key.
TEST_CASE("flash attention of padded sequences in a sliding window") {
  for (bool const causal : {true, false}) {
    check_flash<ct::bfloat16>({5, 150, 32, masked(1, causal, 9, false), true, true}, bf16);
    check_flash<ct::float16>({5, 70, 160, masked(1, causal, 20, false), true, true}, fp16);
    check_flash<float>({5, 129, 16, masked(1, causal, 40, false), true, true}, fp32);
    check_flash<double>({5, 65, 9, masked(1, causal, 3, false), true, true}, fp64);
  }
}

TEST_CASE("flash attention of documents") {
  for (bool const causal : {true, false})
    for (int const window : {0, 30}) {
      for (std::int64_t const tokens : {1, 31, 64, 201})
        check_flash<ct::bfloat16>({1, tokens, 32, masked(2, causal, window, true, 1)}, bf16);
      check_flash<ct::float16>({2, 150, 64, masked(1, causal, window, true)}, fp16);
      check_flash<ct::float16>({1, 70, 160, masked(2, causal, window, true, 1)}, fp16); // two chunks of columns
      check_flash<ct::bfloat16>({1, 130, 128, masked(1, causal, window, true), false}, bf16);
      check_flash<float>({2, 129, 16, masked(2, causal, window, true, 1)}, fp32);
      check_flash<double>({2, 65, 9, masked(1, causal, window, true)}, fp64);
    }
}

// The second of three documents gets other queries, keys, values and gradients.
TEST_CASE("flash attention: changing a document moves no bit of the others") {
  for (bool const causal : {true, false}) {
    flash_case const f{1, 150, 32, masked(2, causal, 0, true, 1)};
    auto const positions = f.mask(); // documents begin at tokens 0, 1, 102 ...
    std::int64_t begin = 1, end = 2;
    while (positions[static_cast<std::size_t>(end)] != 0) ++end;
    CHECK(end - begin > 64);
    ct::shape const wide(1, 150, 4 * 32), narrow(1, 150, 2 * 32);
    auto qkv = array<ct::bfloat16>::random(wide, 1), dy = array<ct::bfloat16>::random(narrow, 2);
    flash_on_device<ct::bfloat16> const before(f, qkv, dy);
    auto const change = [&](auto& x, unsigned seed) {
      auto const other = array<ct::bfloat16>::random(x.in().shape(), seed, 4);
      auto const features = x.in().shape().features();
      for (auto i = begin * features; i < end * features; ++i)
        x[static_cast<std::size_t>(i)] = other[static_cast<std::size_t>(i)];
    };
    change(qkv, 3), change(dy, 4);
    flash_on_device<ct::bfloat16> const after(f, qkv, dy);
    auto const same_elsewhere = [&](auto const& a, auto const& b, std::int64_t features) {
      auto const at = [&](auto const& x, std::int64_t token) {
        return x.begin() + static_cast<std::ptrdiff_t>(token * features);
      };
      using elements = std::vector<ct::bfloat16>;
      return same_bits(elements(a.begin(), at(a, begin)), elements(b.begin(), at(b, begin))) &&
             same_bits(elements(at(a, end), a.end()), elements(at(b, end), b.end()));
    };
    CHECK(same_elsewhere(before.y, after.y, 64));
    CHECK(same_elsewhere(before.dqkv, after.dqkv, 128));
    CHECK_FALSE(same_bits(before.y, after.y));
  }
}
