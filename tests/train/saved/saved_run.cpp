#include "sentence.hpp"
#include "temporary_directory.hpp"
#include "values_of.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

// Weights in several files. Everything else of a saved run is tested beside this file, by subject.

namespace ct = constrain;
namespace fs = std::filesystem;
using ct::test::sentence, ct::test::temporary_directory, ct::test::values_of;

namespace {

/// Its two parameters are stored under one name.
struct same_names {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 16, .width = 8}), 16, {.bias = false});
  }
};

/// Without a weight format: a saved run has no configuration.
struct head_of_tokens {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 16, .width = 8}), 16);
  }
};

} // namespace

template <> struct constrain::weight_format_of<same_names> {
  static constexpr ct::stored_name names[] = {{"token.weight", "same"}, {"head.weight", "same"}};
  static weight_format make(same_names const&) { return {.names = names}; }
};

namespace {

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 40, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using trainer = ct::trainer<task>;

void step(trainer& t, int number) {
  std::vector<std::int32_t> tokens(16);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * 7 % 40) / (number + 1);
  t.step(t.batch(tokens, tokens, ct::labels::shift));
}

/// The names of the files with weights in a directory, and of their index.
std::set<std::string> weights_in(std::string const& directory) {
  std::set<std::string> names;
  for (auto const& e : fs::directory_iterator(directory))
    if (auto const name = e.path().filename().string(); name.starts_with("model")) names.insert(name);
  return names;
}

} // namespace

TEST_CASE("weights in several files: the run continues from them, and one file replaces them") {
  temporary_directory const directory;
  auto const path = directory / "run";
  trainer t;
  step(t, 0);
  t.save(path, {.max_shard_size = ct::bytes(8000)});
  auto const saved = values_of(t);
  auto const names = weights_in(path);
  REQUIRE(names.size() > 3);
  CHECK(names.contains("model-00001-of-0000" + std::to_string(names.size() - 1) + ".safetensors"));
  std::size_t total = 0;
  for (auto const& name : names) {
    if (name.ends_with(".json")) continue;
    auto const file = ct::io::safetensors_file::open(path + "/" + name);
    std::size_t bytes = 0;
    for (auto const& tensor : file.tensors()) bytes += tensor.bytes.size();
    CHECK((bytes <= 8000 || file.tensors().size() == 1));
    total += bytes;
  }
  CHECK(total == saved.size() * sizeof(float));
  auto const index = ct::io::json::parse(ct::test::read_file(path + "/model.safetensors.index.json"));
  CHECK(index["metadata"]["total_size"].int64() == static_cast<std::int64_t>(total));

  step(t, 1);
  trainer resumed, tuned;
  resumed.load(path);
  CHECK(values_of(resumed) == saved);
  step(resumed, 1);
  CHECK(values_of(resumed) == values_of(t));
  tuned.load_pretrained(path);
  CHECK(values_of(tuned) == saved);

  t.save(path);
  CHECK(weights_in(path) == std::set<std::string>{"model.safetensors"});
  resumed.load(path);
  CHECK(values_of(resumed) == values_of(t));
}

TEST_CASE("a tensor that is larger than a file may be has a file of its own") {
  temporary_directory const directory;
  auto const path = directory / "run";
  trainer t, other;
  step(t, 0);
  t.save(path, {.max_shard_size = ct::bytes(1)});
  CHECK(weights_in(path).size() == 1 + 4 + 2 * 12); // the index, the tensors outside the layers, those of two layers
  other.load_pretrained(path);
  CHECK(values_of(other) == values_of(t));
}

TEST_CASE("a file that was put beside the weights of a saved run is not read") {
  temporary_directory const directory;
  auto const path = directory / "run";
  trainer t, stray, other;
  step(t, 0);
  t.save(path, {.max_shard_size = ct::bytes(8000)});
  stray.save(directory / "stray");
  fs::copy_file(fs::path(directory / "stray") / "model.safetensors", fs::path(path) / "model.safetensors");
  other.load_pretrained(path);
  CHECK(values_of(other) == values_of(t));
}

TEST_CASE("a file of the user is kept, though the runs of other models have a file of this name") {
  temporary_directory const directory;
  auto const path = directory / "run";
  ct::trainer<ct::task<head_of_tokens{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>> const t;
  t.save(path);
  CHECK(!fs::exists(path + "/config.json"));
  fs::copy_file(path + "/state.json", path + "/config.json");
  t.save(path);
  int kept = 0;
  for (auto const& entry : fs::directory_iterator(directory.path))
    kept += fs::exists(entry.path() / "config.json") && entry.path().filename().string().starts_with("run.kept-");
  CHECK(kept == 1);
}

TEST_CASE("two tensors of one name are refused before a file is written, in whatever files they would be") {
  temporary_directory const directory;
  auto const path = directory / "run";
  ct::trainer<ct::task<same_names{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>> const t;
  constexpr auto refusal = "the tensor name 'same' occurs twice; give every tensor its own name";
  CHECK(sentence([&] { t.save(path); }) == refusal);
  CHECK(sentence([&] { t.save(path, {.max_shard_size = ct::bytes(1)}); }) == refusal);
  CHECK(!fs::exists(path));
}

TEST_CASE("weights that fit into one file have no index, and a negative size is refused with nothing changed") {
  temporary_directory const directory;
  auto const path = directory / "run";
  trainer t;
  t.save(path, {.max_shard_size = ct::mebibytes(1)});
  CHECK(weights_in(path) == std::set<std::string>{"model.safetensors"});
  CHECK(sentence([&] { t.save(path, {.max_shard_size = ct::bytes(-5)}); }) ==
        "save: .max_shard_size is -5 bytes; give at least 1 byte, or 0 for one file");
  CHECK(weights_in(path) == std::set<std::string>{"model.safetensors"});
}

TEST_CASE("an index that does not fit its files is refused, with nothing changed") {
  temporary_directory const directory;
  auto const path = directory / "run";
  trainer t;
  step(t, 0);
  t.save(path, {.max_shard_size = ct::bytes(20'000)});
  std::vector<std::string> const names{"model-00001-of-00002.safetensors",
                                       "model-00002-of-00002.safetensors",
                                       "model.safetensors.index.json",
                                       "config.json",
                                       "optimizer.safetensors",
                                       "state.json"};
  std::vector<std::string> contents;
  for (auto const& name : names) contents.push_back(ct::test::read_file(path + "/" + name));
  std::swap(contents[0], contents[1]);
  ct::io::directory_writer writer(path);
  for (std::size_t i = 0; i < names.size(); ++i) writer.write(names[i], contents[i]);
  writer.commit();
  trainer other;
  auto const before = values_of(other);
  CHECK(sentence([&] {
          other.load(path);
        }).find("that the index '" + path + "/model.safetensors.index.json' does not") != std::string::npos);
  CHECK(other.steps() == 0);
  CHECK(values_of(other) == before);
}
