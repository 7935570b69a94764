#include "../../sentence.hpp"
#include "../../temporary_directory.hpp"
#include "../../values_of.hpp"
#include "../../without_descriptors.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <climits>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The configuration that is saved beside a model's weights: objects in it are compared field by field.

namespace ct = constrain;
using namespace constrain::test;

namespace {

struct small {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 7, .width = 4}), 7);
  }
};

} // namespace

template <> struct constrain::weight_format_of<small> {
  static weight_format make(small const&) {
    return {.configuration = R"({"rope": {"base": 10000, "scaling": {"kind": "linear", "list": [1]}}, "width": 4,)"
                             R"( "seed": 9007199254740993, "shift": 0})"};
  }
};

namespace {

using trainer = ct::trainer<ct::task<small{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 4}>>;

/// The error of load_pretrained, from "its" on, beside this config.json.
std::string refusal(std::string const& configuration) {
  temporary_directory const directory;
  trainer t;
  t.save(directory / "run");
  std::filesystem::create_directory(directory / "model");
  std::filesystem::copy(directory / "run/model.safetensors", directory / "model/model.safetensors");
  write_file(directory / "model/config.json", configuration);
  auto const said = sentence([&] { t.load_pretrained(directory / "model"); });
  auto const its = said.find("its ");
  return its == said.npos ? said : said.substr(its);
}

} // namespace

TEST_CASE("objects of a configuration are compared field by field") {
  CHECK(refusal(R"({"rope": {"base": 1e4, "scaling": {"kind": "linear", "list": [2]}, "more": 1}})").empty());
  CHECK(refusal(R"({"rope": {}})").empty());
  CHECK(refusal(R"({"rope": null})").empty());
  CHECK(refusal(R"({"rope": {"base": 500000}})") ==
        "its rope.base is 500000, the trainer's is 10000; load it into a trainer with the same rope.base");
  CHECK(refusal(R"({"rope": {"scaling": {"kind": "yarn"}}})").starts_with("its rope.scaling.kind is yarn, "));
  CHECK(refusal(R"({"rope": 3})").starts_with("its rope is 3, the trainer's is an object"));
  CHECK(refusal(R"({"rope": []})").starts_with("its rope is an array, the trainer's is an object"));
  CHECK(refusal(R"({"width": {}})").starts_with("its width is an object, the trainer's is 4"));
  CHECK(refusal(R"({"width": 5})").starts_with("its width is 5, "));
}

TEST_CASE("integers of a configuration are compared exactly") {
  CHECK(refusal(R"({"seed": 9007199254740993, "shift": -0})").empty());
  CHECK(refusal(R"({"seed": 9007199254740992})")
            .starts_with("its seed is 9007199254740992, the trainer's is 9007199254740993;"));
  CHECK(refusal(R"({"seed": 90071992547409930})").starts_with("its seed is 90071992547409930,"));
  CHECK(refusal(R"({"shift": -1})").starts_with("its shift is -1, the trainer's is 0;"));
  CHECK(refusal(R"({"width": 4.0})").empty());
  CHECK(refusal(R"({"width": 40E-1, "shift": -0.0})").empty());
}

namespace {

/// A model whose weight format changes while the program runs.
struct changing {
  constexpr ct::value operator()(ct::value tokens) const { return small{}(tokens); }
};
ct::weight_format changing_format;

} // namespace

template <> struct constrain::weight_format_of<changing> {
  static weight_format make(changing const&) { return changing_format; }
};

TEST_CASE("a configuration of the model's weight format that is not a JSON object is an error that names it") {
  temporary_directory const directory;
  ct::trainer<ct::task<changing{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 4}>> t;
  changing_format.configuration = "{}";
  t.save(directory / "run");
  auto const said = [&](ct::weight_format const& format) {
    changing_format = format;
    return sentence([&] { t.load_pretrained(directory / "run"); });
  };
  CHECK(
      said({.configuration = "[]"}) ==
      "'weight_format::configuration' has an array at byte 0 where an object is needed; correct it or write it again");
  CHECK(said({.configuration = "{"}).starts_with("'weight_format::configuration' cannot be read as JSON at byte 1: "));
  auto const normalize = [](ct::io::json const&) -> std::string { return "{}"; };
  CHECK(said({.configuration = "{}", .normalize = normalize, .normalized = "3"})
            .starts_with("'weight_format::normalized' has 3 at byte 0 where an object is needed;"));
  CHECK(said({.configuration = "{}",
              .normalize = [](ct::io::json const&) -> std::string { return "null"; },
              .normalized = R"({"a": 1})"})
            .starts_with("'the result of weight_format::normalize' has null at byte 0 where an object is needed;"));
  CHECK(said({.configuration = "{}", .normalize = normalize, .normalized = "{}"}).empty());
}

TEST_CASE("weights are loaded after a save that was interrupted between its two renames") {
  temporary_directory const directory;
  trainer saved{{}, {.seed = 1}}, loaded{{}, {.seed = 2}};
  saved.save(directory / "run");
  std::filesystem::rename(directory / "run", directory / ".run.previous");
  REQUIRE(values_of(loaded, "token.weight") != values_of(saved, "token.weight"));
  loaded.load_pretrained(directory / "run");
  CHECK(values_of(loaded, "token.weight") == values_of(saved, "token.weight"));
  CHECK(sentence([&] { loaded.load_pretrained(directory / "other"); }).find("other") != std::string::npos);
}

TEST_CASE("after an interrupted save, weights are found like runs if the directory was created again") {
  temporary_directory const directory;
  trainer saved{{}, {.seed = 1}}, loaded{{}, {.seed = 2}};
  saved.save(directory / "run");
  std::filesystem::rename(directory / "run", directory / ".run.previous");
  std::filesystem::create_directory(directory / "run");
  write_file(directory / "run/log.csv", "step,loss");
  loaded.load_pretrained(directory / "run");
  CHECK(values_of(loaded, "token.weight") == values_of(saved, "token.weight"));
  write_file(directory / "run/adapter.safetensors", "");
  CHECK(sentence([&] { loaded.load_pretrained(directory / "run"); }).find("has no model.safetensors") !=
        std::string::npos);
}

TEST_CASE("a file that may exist is not called missing, and a directory that cannot be listed is no file") {
  temporary_directory const directory;
  trainer t;
  t.save(directory / "run");
  std::filesystem::create_directory(directory / "model");
  std::filesystem::copy(directory / "run/model.safetensors", directory / "model/model.safetensors");
  for (auto const* const name : {"run", "model"}) {
    auto path = directory / name;
    while (path.size() + 2 < PATH_MAX) path += "/."; // the same directory, but no name fits behind it
    CHECK(sentence([&] { t.load_pretrained(path); }) ==
          "the directory '" + path +
              "' cannot be searched for manifest.json (File name too long); check the path and its permissions");
  }
  CHECK(sentence_without_descriptors([&] { t.load_pretrained(directory / "run"); }) ==
        "the manifest '" + (directory / "run/manifest.json") +
            "' cannot be opened (Too many open files); close other files");
}

namespace {

/// Copies a saved run as `cp run/* copy` does: without its mark, which is hidden.
void copy_files(std::string const& run, std::string const& copy) {
  std::filesystem::create_directory(copy);
  for (auto const& entry : std::filesystem::directory_iterator(run))
    if (auto const name = entry.path().filename().string(); name.front() != '.')
      std::filesystem::copy(entry.path(), copy + "/" + name);
}

} // namespace

TEST_CASE("a manifest.json of another program belongs to no saved run") {
  temporary_directory const directory;
  trainer saved{{}, {.seed = 1}};
  saved.save(directory / "run");
  copy_files(directory / "run", directory / "model");
  for (auto const* const text :
       {R"({"name": "my app", "files": []})", R"({"format": "other"})", R"({"format": 3})", "[]", "null"}) {
    CAPTURE(text);
    write_file(directory / "model/manifest.json", text);
    trainer loaded{{}, {.seed = 2}};
    CHECK(sentence([&] { loaded.load_pretrained(directory / "model"); }) == "");
    CHECK(values_of(loaded, "token.weight") == values_of(saved, "token.weight"));
    auto const refusal = "manifest.json' does not have the format 'constrain directory'; give a directory that this "
                         "library wrote";
    CHECK(sentence([&] { loaded.load(directory / "model"); }).ends_with(refusal));
    write_file(directory / "run/manifest.json", text); // the mark says whose directory it is
    CHECK(sentence([&] { loaded.load_pretrained(directory / "run"); }).ends_with(refusal));
  }
}

TEST_CASE("a damaged manifest is not another program's") {
  temporary_directory const directory;
  trainer t;
  t.save(directory / "run");
  copy_files(directory / "run", directory / "copy");
  auto const file = directory / "copy/manifest.json", content = read_file(file);
  t.load_pretrained(directory / "copy");
  for (std::size_t i = 0; i < content.size(); ++i) {
    CAPTURE(i);
    write_file(file, content.substr(0, i));
    CHECK_FALSE(sentence([&] { t.load_pretrained(directory / "copy"); }).empty());
    for (int bit = 0; bit < 8; ++bit) {
      auto changed = content;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      write_file(file, changed);
      CHECK_FALSE(sentence([&] { t.load_pretrained(directory / "copy"); }).empty());
    }
  }
}

namespace {

/// The same embedding with two heads, in which the tensors of `small` are not all.
struct two_heads {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 4});
    return ct::linear("head", ct::linear("other", x, 4), 7);
  }
};
struct unrelated {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("b", ct::embedding("a", tokens, {.vocabulary = 7, .width = 4}), 7);
  }
};
template <class model>
using fp64_trainer =
    ct::trainer<ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 4}>, ct::precision::fp64>;

} // namespace

TEST_CASE("weights are loaded strictly or partly, and what was not there is said") {
  temporary_directory const directory;
  fp64_trainer<two_heads> saved{{}, {.seed = 1}};
  saved.save(directory / "two");
  fp64_trainer<small> t{{}, {.seed = 2}};
  t.save(directory / "one");
  CHECK(sentence([&] { t.load_pretrained(directory / "two"); })
            .ends_with("have a tensor 'other.weight' that the model does not have; load the weights of the same "
                       "model, or pass {.strict = false} to ignore it"));
  CHECK(values_of(t, "head.bias") == values_of(fp64_trainer<small>{{}, {.seed = 2}}, "head.bias"));
  auto const more = t.load_pretrained(directory / "two", {.strict = false});
  CHECK(more.missing.empty());
  CHECK(more.unexpected == std::vector<std::string>{"other.weight", "other.bias"});
  CHECK(more.text() == "not the model's, ignored: other.weight, other.bias");
  CHECK(values_of(t, "token.weight") == values_of(saved, "token.weight"));

  auto const before = values_of(saved, "other.weight");
  CHECK(sentence([&] { saved.load_pretrained(directory / "one"); })
            .ends_with("have no tensor 'other.weight'; load the weights of the same model, or pass {.strict = false} "
                       "to keep the values of missing tensors"));
  auto const fewer = saved.load_pretrained(directory / "one", {.strict = false});
  CHECK(fewer.missing == std::vector<std::string>{"other.weight", "other.bias"});
  CHECK(fewer.unexpected.empty());
  CHECK(values_of(saved, "other.weight") == before);

  fp64_trainer<unrelated> other;
  CHECK(sentence([&] {
          other.load_pretrained(directory / "one", {.strict = false});
        }).find("have none of the model's tensors, such as 'a.weight'; load the weights") != std::string::npos);
}
