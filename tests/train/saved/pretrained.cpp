#include "../../sentence.hpp"
#include "../../temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <string>

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
    return {.configuration = R"({"rope": {"base": 10000, "scaling": {"kind": "linear", "list": [1]}}, "width": 4})"};
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
  CHECK(refusal(R"({"rope": 3})").starts_with("its rope is 3, the trainer's is another kind of value"));
  CHECK(refusal(R"({"width": 5})").starts_with("its width is 5, "));
}
