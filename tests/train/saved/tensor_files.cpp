#include "sentence.hpp"
#include "temporary_directory.hpp"
#include "values_of.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

// The layouts of tensors in files.

namespace ct = constrain;
using ct::test::sentence, ct::test::temporary_directory, ct::test::values_of;

namespace {

constexpr int width = 3, inner = 2, layers = 3;

/// Its layers have matrices that are not square.
struct stacked {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 5, .width = width});
    x = ct::repeat("block", layers, x, [](ct::value h) {
      return ct::linear("down", ct::linear("up", h, inner, {.bias = false}), width, {.bias = false});
    });
    return ct::linear("head", x, 5);
  }
};

/// Its weight format transposes a bias.
struct transposed_bias : stacked {};

} // namespace

template <> struct constrain::weight_format_of<stacked> {
  static constexpr ct::stored_name names[] = {{"block.up.weight", "stacked.up", true},
                                              {"block.down.weight", "layer.*.down", true}};
  static weight_format make(stacked const&) { return {.names = names}; }
};

template <> struct constrain::weight_format_of<transposed_bias> {
  static constexpr ct::stored_name names[] = {{"head.bias", "bias", true}};
  static weight_format make(transposed_bias const&) { return {.names = names}; }
};

namespace {

template <class model>
using trainer =
    ct::trainer<ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 4}>, ct::precision::fp64>;

/// The values of a tensor of a file.
std::vector<double> read(std::string const& path, std::string const& name) {
  auto const file = ct::io::safetensors_file::open(path);
  std::vector<double> values;
  for (auto const& t : file.tensors())
    if (t.name == name) values.resize(t.bytes.size() / 8), std::memcpy(values.data(), t.bytes.data(), t.bytes.size());
  return values;
}

} // namespace

TEST_CASE("each layer's matrix is transposed, whether a tensor holds one layer or all of them") {
  temporary_directory const directory;
  trainer<stacked> const saved{{}, {.seed = 1}};
  saved.save(directory / "run");
  auto const up = values_of(saved, "block.up.weight"), down = values_of(saved, "block.down.weight");
  auto const all = read(directory / "run/model.safetensors", "stacked.up");
  REQUIRE(all.size() == layers * inner * width);
  for (std::size_t l = 0; l < layers; ++l) {
    auto const one = read(directory / "run/model.safetensors", "layer." + std::to_string(l) + ".down");
    REQUIRE(one.size() == width * inner);
    for (std::size_t i = 0; i < inner; ++i)
      for (std::size_t j = 0; j < width; ++j) {
        CHECK(all[(l * width + j) * inner + i] == up[(l * inner + i) * width + j]);
        CHECK(one[i * width + j] == down[(l * width + j) * inner + i]);
      }
  }
  trainer<stacked> loaded{{}, {.seed = 2}};
  loaded.load_pretrained(directory / "run");
  CHECK(values_of(loaded) == values_of(saved));
}

TEST_CASE("a weight format that transposes a parameter other than a matrix is refused") {
  temporary_directory const directory;
  trainer<transposed_bias> t;
  constexpr auto refusal = "the weight format transposes 'head.bias', which has 1 dimension; set .transposed only for "
                           "parameters with two dimensions";
  CHECK(sentence([&] { t.save(directory / "run"); }) == refusal);
  CHECK(directory.entries() == 0);
  trainer<stacked>{}.save(directory / "other");
  CHECK(sentence([&] { t.load_pretrained(directory / "other"); }) == refusal);
}
