#include "../sentence.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <set>
#include <vector>

namespace ct = constrain;
namespace data = constrain::data;
using ct::test::sentence;

namespace {

struct classifier {
  static constexpr ct::port_spec inputs[] = {
      {.name = "tokens"}, {.name = "types"}, {.name = "lengths", .each = ct::per::sequence}};
  constexpr ct::value operator()(ct::value tokens, ct::value types, ct::value lengths) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 30'000, .width = 4}) +
                   ct::embedding("type", types, {.vocabulary = 2, .width = 4});
    auto const y = ct::self_attention(ct::linear("qkv", x, 12), lengths, {.heads = 1, .causal = false});
    return ct::linear("head", ct::select_token(y, 0), 3);
  }
};
using task = ct::task<classifier{}, ct::classification, ct::micro_batch{.sequences = 2, .tokens = 16}>;

} // namespace

TEST_CASE("random examples: tokens and classes fill their ranges evenly") {
  auto const all = data::random_examples(
      {.count = 5000, .length = 20, .first_token = 100, .vocabulary = 300, .classes = 5, .seed = 3});
  REQUIRE(all.inputs().size() == 1);
  auto const tokens = all.inputs()[0].integers(), labels = all.labels()[0].integers();
  REQUIRE(tokens.size() == 100'000);
  REQUIRE(labels.size() == 5000);
  std::vector<int> of_token(300), of_label(5);
  for (auto const token : tokens) {
    REQUIRE((token >= 100 && token < 300));
    ++of_token[static_cast<std::size_t>(token)];
  }
  for (auto const label : labels) {
    REQUIRE((label >= 0 && label < 5));
    ++of_label[static_cast<std::size_t>(label)];
  }
  double statistic = 0; // chi squared of 199 degrees of freedom: 199 +- 20
  for (std::size_t i = 100; i < 300; ++i) statistic += (of_token[i] - 500.0) * (of_token[i] - 500.0) / 500.0;
  CHECK(statistic > 120);
  CHECK(statistic < 280);
  for (int const n : of_label) CHECK(n == doctest::Approx(1000).epsilon(0.12)); // the stddev is 28
}

TEST_CASE("random examples: equal options give equal examples, other seeds others") {
  data::random_examples_options o{.count = 10, .length = 4, .vocabulary = 50};
  auto const all = data::random_examples(o);
  CHECK(all.fingerprint() == data::random_examples(o).fingerprint());
  std::set<std::uint64_t> prints{all.fingerprint()};
  o.seed = 1;
  prints.insert(data::random_examples(o).fingerprint());
  o.seed = std::uint64_t{1} << 32;
  prints.insert(data::random_examples(o).fingerprint());
  CHECK(prints.size() == 3);
  auto const tokens = all.inputs()[0].integers();
  CHECK(std::set(tokens.begin(), tokens.end()).size() > 10);
}

TEST_CASE("random examples: a model with types and lengths trains on them") {
  auto const all = data::random_examples({.count = 8,
                                          .length = 16,
                                          .first_token = 100,
                                          .vocabulary = 30'000,
                                          .classes = 3,
                                          .types = true,
                                          .lengths = true});
  REQUIRE(all.inputs().size() == 3);
  for (auto const type : all.inputs()[1].integers()) CHECK(type == 0);
  for (auto const length : all.inputs()[2].integers()) CHECK(length == 16);
  ct::trainer<task> t({.learning_rate = 3e-2f});
  auto const before = t.evaluate(all).loss;
  CHECK(ct::fit(t, all, {.steps = 20, .validation = &all, .log = nullptr}).validation->loss < before);
}

TEST_CASE("random examples: options out of range are refused") {
  auto const said = [](data::random_examples_options const& o) { return sentence([&] { data::random_examples(o); }); };
  CHECK(said({.length = 1, .vocabulary = 1}) == "random_examples_options: .count is 0; give an integer of at least 1");
  CHECK(said({.count = 1, .vocabulary = 1}) == "random_examples_options: .length is 0; give an integer of at least 1");
  CHECK(said({.count = 1, .length = 1, .first_token = -1, .vocabulary = 1}) ==
        "random_examples_options: .first_token is -1; give an integer of at least 0");
  CHECK(said({.count = 1, .length = 1, .first_token = 5, .vocabulary = 5}) ==
        "random_examples_options: .vocabulary is 5, but .first_token is 5; give a vocabulary above the first token");
  CHECK(said({.count = 1, .length = 1, .vocabulary = 5, .classes = 0}) ==
        "random_examples_options: .classes is 0; give an integer of at least 1");
  CHECK(said({.count = 1, .length = std::int64_t{1} << 31, .vocabulary = 5})
            .starts_with("random_examples_options: .length is 2147483648"));
  CHECK(said({.count = std::numeric_limits<std::int64_t>::max(), .length = 1000, .vocabulary = 5})
            .starts_with("the data has 9223372036854775807 examples of 4004 bytes, more than the "));
}
