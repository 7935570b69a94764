#include <constrain/constrain.hpp>
#include <constrain/train/tensor_core_dimensions.hpp>
#include <doctest/doctest.h>

#include <set>
#include <sstream>
#include <string>

// Which dimensions of GEMMs tensor cores do not want.

namespace ct = constrain;

namespace {

template <int width, int vocabulary, class... policies> std::string dimensions(bool tf32 = false) {
  using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = width, .vocabulary = vocabulary, .context = 64},
                        ct::causal_lm, ct::micro_batch{.sequences = 1}>;
  return ct::detail::tensor_core_dimensions(ct::entries<task, ct::policies<policies...>>::step_program::final, tf32);
}

} // namespace

TEST_CASE("tensor_core_dimensions: what is no multiple of 8 or 64, in 16 bits") {
  CHECK(ct::detail::dimension_note(768, 2).empty());
  CHECK(ct::detail::dimension_note(72, 2) == "72 is not a multiple of 64 (next: 128)");
  CHECK(ct::detail::dimension_note(50257, 2) == "50257 is not a multiple of 8 (next: 50264) or 64 (next: 50304)");
  CHECK(dimensions<64, 256, ct::precision::bf16>().empty());
  CHECK(dimensions<64, 257, ct::precision::fp16>() ==
        "  token.weight                       257 is not a multiple of 8 (next: 264) or 64 (next: 320)\n");
  auto const narrow = dimensions<36, 256, ct::precision::bf16>();
  CHECK(narrow.find("block.attention.qkv.weight         36 is not a multiple of 8 (next: 40) or 64 (next: 64)\n") !=
        std::string::npos);
  CHECK(narrow.find("block.attention.qkv.weight         108 is not a multiple of 8") != std::string::npos);
}

TEST_CASE("tensor_core_dimensions: the multiples are of 16 and 128 bytes") {
  // On the CPU, the operands of precision::tf32 are rounded copies, so this is the program of a CUDA device.
  CHECK(dimensions<32, 96, ct::precision::fp32>(true).empty());
  CHECK(dimensions<32, 257, ct::precision::fp32>(true) ==
        "  token.weight                       257 is not a multiple of 4 (next: 260) or 32 (next: 288)\n");
  CHECK(dimensions<16, 48, ct::precision::fp64>().empty());
  CHECK(dimensions<16, 257, ct::precision::fp64>() ==
        "  token.weight                       257 is not a multiple of 2 (next: 258) or 16 (next: 272)\n");
}

TEST_CASE("tensor_core_dimensions: GEMMs in fp32 do not use tensor cores") {
  CHECK(dimensions<36, 257, ct::precision::fp32>().empty());
}

TEST_CASE("tensor_core_dimensions: a square weight has one line, and so have equal numbers of rows") {
  std::istringstream lines(dimensions<36, 250, ct::precision::bf16, ct::accumulate<2>>());
  std::set<std::string> distinct;
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(distinct.insert(line).second, line);
  CHECK(distinct.size() > 3);
}
