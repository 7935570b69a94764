#include "../../sentence.hpp"
#include "../../temporary_directory.hpp"
#include "../../values_of.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

// Saved runs of a model that has tensors of the same shapes, but another configuration.

namespace ct = constrain;
using namespace constrain::test;

namespace {

template <int heads>
using trainer_with =
    ct::trainer<ct::task<ct::gpt2{.layers = 1, .heads = heads, .width = 8, .vocabulary = 16, .context = 8},
                         ct::causal_lm, ct::micro_batch{.sequences = 1}>>;

/// A model whose weight format changes while the program runs.
struct changing {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 7, .width = 4}), 7);
  }
};
ct::weight_format changing_format;

} // namespace

template <> struct constrain::weight_format_of<changing> {
  static weight_format make(changing const&) { return changing_format; }
};

namespace {

using changing_trainer = ct::trainer<ct::task<changing{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 4}>>;

/// The error of `load` for a run that was saved with the format `saved` and is loaded with the format `expected`.
std::string refusal(ct::weight_format const& saved, ct::weight_format const& expected) {
  temporary_directory const directory;
  changing_trainer t;
  changing_format = saved;
  t.save(directory / "run");
  changing_format = expected;
  auto const said = sentence([&] { t.load(directory / "run"); });
  auto const its = said.find("its ");
  return its == said.npos ? said : said.substr(its);
}

} // namespace

TEST_CASE("a run of a model with other options and the same shapes is not continued, and nothing changes") {
  temporary_directory const directory;
  trainer_with<2> saved{{}, {.seed = 1}};
  std::vector<std::int32_t> const tokens{1, 2, 3, 4, 5, 6, 7, 8};
  saved.step(saved.batch(tokens, tokens, ct::labels::shift));
  auto const path = directory / "series/step-1";
  saved.save(path);
  trainer_with<4> other{{}, {.seed = 2}};
  auto const before = values_of(other);
  auto const expected = "'" + path +
                        "' does not match the trainer: its n_head is 2, the trainer's is 4; load it into a trainer "
                        "with the same n_head";
  CHECK(sentence([&] { other.load(path); }) == expected);
  CHECK(sentence([&] { other.load_tensors(path); }) == expected);
  CHECK(sentence([&] { other.resume(directory / "series", nullptr); }) == expected);
  CHECK(values_of(other) == before);
  CHECK(other.steps() == 0);
  CHECK(other.state().seed == 2);

  trainer_with<2> same{{}, {.seed = 2}};
  same.load(path);
  CHECK(values_of(same) == values_of(saved));
}

TEST_CASE("a saved run's config.json is compared as far as both versions of the weight format have it") {
  ct::weight_format const width{.configuration = R"({"width": 4})"};
  CHECK(refusal(width, {.configuration = R"({"width": 4.0, "depth": 3})"}).empty());
  CHECK(refusal(width, {.configuration = R"({"width": 5})"}) ==
        "its width is 4, the trainer's is 5; load it into a trainer with the same width");
  // A required key is one that other programs must write.
  static constexpr std::string_view required[] = {"depth"};
  CHECK(refusal(width, {.configuration = R"({"width": 4, "depth": 3})", .required_keys = required}).empty());
  // A limit may differ.
  static constexpr std::string_view limits[] = {"width"};
  CHECK(refusal(width, {.configuration = R"({"width": 5})", .limits = limits}).empty());
  // Without a configuration on one side, there is nothing to compare.
  CHECK(refusal({}, width).empty());
  CHECK(refusal(width, {}).empty());
  // The normalized form of the saved file counts.
  auto const normalize = [](ct::io::json const& saved) {
    return std::string(saved["width"].int64() > 3 ? R"({"wide": true})" : "{}");
  };
  CHECK(refusal(width, {.configuration = "{}", .normalize = normalize, .normalized = R"({"wide": true})"}).empty());
  CHECK(refusal(width, {.configuration = "{}", .normalize = normalize, .normalized = R"({"wide": false})"})
            .starts_with("its wide is true, the trainer's is false;"));
}
