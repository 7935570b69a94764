#include "sentence.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

// Arrays of the wrong length, which a view neither reads nor writes.

namespace ct = constrain;
using ct::test::sentence;

TEST_CASE("a view copies only to and from arrays of its length") {
  using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 4, .vocabulary = 7, .context = 4}, ct::causal_lm,
                        ct::micro_batch{.sequences = 2}>;
  ct::trainer<task> const t;
  auto const view = t.parameters().front(); // [7, 4] in fp32
  REQUIRE(view.size() == 28);
  for (std::size_t length : {0, 27, 29}) {
    std::vector<float> values(length);
    auto const said = "a tensor of 28 elements cannot be copied to or from an array of " + std::to_string(length) +
                      "; give an array of 28 elements";
    CHECK(sentence([&] { view.copy_to(std::span(values)); }) == said);
    CHECK(sentence([&] { view.copy_from(std::span<float const>(values)); }) == said);
  }
  for (std::size_t length : {0, 28, 109, 111, 113}) { // 111: the last element would not fit
    std::vector<std::byte> bytes(length);
    CHECK(sentence([&] { view.copy_bytes_to(bytes); }) == "a tensor of 112 bytes cannot be copied to an array of " +
                                                              std::to_string(length) + "; give an array of 112 bytes");
  }
  std::vector<std::byte> bytes(112);
  view.copy_bytes_to(bytes);
}

TEST_CASE("a view of integers copies only bytes") {
  using task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 64, .vocabulary = 64, .context = 4}, ct::causal_lm,
                        ct::micro_batch{.sequences = 2}>;
  ct::trainer<task, ct::optimizer::quantized<ct::optimizer::adamw, ct::optimizer::everything>> const t;
  auto const state = t.state("token.weight", "exp_avg");
  REQUIRE(state.type() == ct::dtype::u8);
  std::vector<float> values(static_cast<std::size_t>(state.size()));
  CHECK(sentence([&] { state.copy_to(std::span(values)); }) ==
        "a tensor of u8 elements holds no floating-point numbers and cannot be converted; use copy_bytes_to");
  CHECK(sentence([&] { state.copy_from(std::span<float const>(values)); }) ==
        "a tensor of u8 elements holds no floating-point numbers and cannot be set; load a saved run to change it");
}
