#include "sentence.hpp"
#include "temporary_directory.hpp"
#include "values_of.hpp"

#include <constrain/constrain.hpp>
#include <constrain/io/safetensors_writer.hpp>
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
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

/// Names of its own with a '*', two of which differ from another name only by it.
struct starred {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("a*", tokens, {.vocabulary = 5, .width = width});
    x = x + ct::embedding("a0", tokens, {.vocabulary = 5, .width = width});
    x = ct::repeat("block", layers, x, [](ct::value h) { return ct::linear("*", h, width, {.bias = false}); });
    return ct::linear("head", x, 5);
  }
};
struct starred_only {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("a*", tokens, {.vocabulary = 5, .width = width});
    x = ct::repeat("block", layers, x, [](ct::value h) { return ct::linear("*", h, width, {.bias = false}); });
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

/// Writes the saved run `from` as `to`, with the names of tensors of earlier versions: the iteration in place of a '*'.
void write_as_earlier(std::string const& from, std::string const& to) {
  ct::io::directory_reader const reader(from);
  ct::io::directory_writer writer(to);
  for (auto const& file : reader.entries()) {
    if (!file.name.ends_with(".safetensors")) {
      writer.write(file.name, reader.bytes(file.name));
      continue;
    }
    std::vector<ct::io::tensor> tensors;
    for (auto const& t : ct::io::parse_safetensors(reader.bytes(file.name), file.name).tensors) {
      auto const star = t.name.find('*');
      auto const count = star != t.name.npos && t.shape.size() == 3 ? std::size_t{layers} : 1;
      for (std::size_t i = 0; i < count; ++i) {
        auto one = t;
        if (star != t.name.npos) one.name.replace(star, 1, std::to_string(i));
        if (count > 1) one.shape.erase(one.shape.begin());
        one.bytes = t.bytes.subspan(i * t.bytes.size() / count, t.bytes.size() / count);
        tensors.push_back(one);
      }
    }
    writer.write(file.name, [&](ct::io::output_file& out) { ct::io::write_safetensors(out, tensors); });
  }
  writer.commit();
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

TEST_CASE("a '*' in a name of the model itself is no placeholder") {
  temporary_directory const directory;
  trainer<starred> const saved{{}, {.seed = 1}};
  saved.save(directory / "run");
  CHECK(read(directory / "run/model.safetensors", "a*.weight") == values_of(saved, "a*.weight"));
  CHECK(read(directory / "run/model.safetensors", "block.*.weight") == values_of(saved, "block.*.weight"));
  trainer<starred> loaded{{}, {.seed = 2}}, pretrained{{}, {.seed = 3}};
  loaded.load(directory / "run");
  CHECK(values_of(loaded) == values_of(saved));
  pretrained.load_pretrained(directory / "run");
  CHECK(values_of(pretrained) == values_of(saved));
}

TEST_CASE("a saved run of an earlier version, which took such a '*' for a placeholder, is read") {
  temporary_directory const directory;
  trainer<starred_only> saved{{}, {.seed = 1}};
  std::vector<std::int32_t> const tokens{1, 2, 3, 4};
  saved.step(saved.batch(tokens, tokens, ct::labels::shift));
  saved.save(directory / "now");
  write_as_earlier(directory / "now", directory / "run");
  CHECK(read(directory / "run/model.safetensors", "a0.weight") == values_of(saved, "a*.weight"));
  CHECK(read(directory / "run/model.safetensors", "block.2.weight").size() == width * width);
  trainer<starred_only> loaded{{}, {.seed = 2}}, pretrained{{}, {.seed = 3}};
  loaded.load(directory / "run");
  CHECK(values_of(loaded) == values_of(saved));
  std::vector<double> state(width * width * layers), saved_state(state.size());
  loaded.state("block.*.weight", "exp_avg").copy_to(std::span(state));
  saved.state("block.*.weight", "exp_avg").copy_to(std::span(saved_state));
  CHECK(state == saved_state);
  pretrained.load_pretrained(directory / "run");
  CHECK(values_of(pretrained) == values_of(saved));
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
