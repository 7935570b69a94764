#include "../sentence.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

// The tokens that `generate` samples, and the arguments that it refuses.

namespace ct = constrain;
using ct::test::sentence;

namespace {

constexpr float never = -std::numeric_limits<float>::infinity();

std::int32_t drawn(std::vector<float> const& logits, ct::generate_options const& options = {}, std::int64_t n = 0) {
  return ct::sampler(options)(logits.data(), logits.size(), n);
}

/// A model of bytes with one class more, for the end of a text.
struct bytes_and_end {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 256, .width = 4}), 257);
  }
};

} // namespace

TEST_CASE("a token of logit minus infinity is never drawn") {
  std::set<std::int32_t> seen;
  for (std::int64_t n = 0; n < 200; ++n) seen.insert(drawn({0, never, 0.5f, never}, {.seed = 3}, n));
  CHECK(seen == std::set<std::int32_t>{0, 2});
  CHECK(drawn({never, never, 1, 1}, {.temperature = 0}) == 2); // the first of equals
}

TEST_CASE("nothing is drawn from logits that are not finite") {
  auto const said = [](std::vector<float> const& logits, std::int64_t n) {
    return sentence([&] { drawn(logits, {}, n); });
  };
  float const nan = std::nanf("");
  CHECK(said({0, nan, 1}, 4) ==
        "generate: a logit of new token 5 is NaN or +infinity, so no token can be sampled: a weight is not finite, or "
        "an operation of the model overflows; load an earlier saved run");
  for (auto const& logits : {std::vector<float>{nan, 0}, {-nan, 0}, {0, -never}, {never, nan}, {nan}})
    CHECK(said(logits, 0).starts_with("generate: a logit of new token 1 is NaN or +infinity"));
  CHECK(said({never, never}, 4) ==
        "generate: all logits of new token 5 are -infinity, so no token can be sampled; leave "
        "at least one token unmasked");
  CHECK(said({1, never}, 0).empty());
}

TEST_CASE("options that no draw follows from") {
  auto const said = [](ct::generate_options const& options) { return sentence([&] { ct::sampler{options}; }); };
  CHECK(said({.temperature = -1}) == "generate_options: .temperature is -1; give a finite number of at least 0");
  CHECK(said({.temperature = std::nan("")}).starts_with("generate_options: .temperature is "));
  CHECK(said({.temperature = std::numeric_limits<double>::infinity()})
            .starts_with("generate_options: .temperature is inf"));
  CHECK(said({.top_k = -2}) == "generate_options: .top_k is -2; give an integer of at least 0");
  CHECK(said({.temperature = 0, .top_k = 3}).empty());
}

TEST_CASE("of one's own vocabulary there are tokens, no text; destroyed weights say so") {
  using trainer = ct::trainer<ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 8, .vocabulary = 300, .context = 8},
                                       ct::causal_lm, ct::micro_batch{.sequences = 1}>>;
  trainer t;
  std::vector<std::int32_t> const prompt{299, 1};
  auto const tokens = t.generate(prompt, 3);
  REQUIRE(tokens.size() == 5);
  CHECK(tokens[0] == 299);
  CHECK(t.generate(prompt, 0) == prompt);
  // Of what is longer than the context of 8, the end counts.
  auto const longer = t.generate(prompt, 10);
  CHECK(std::equal(tokens.begin(), tokens.end(), longer.begin()));
  std::vector<std::int32_t> const end(longer.end() - 8, longer.end());
  CHECK(t.generate(longer, 1).back() == t.generate(end, 1).back());
  CHECK(sentence([&] { t.generate(prompt, -1); }) ==
        "generate: the number of tokens is -1; give an integer of at least 0");
  auto const weights = t.parameters()[0];
  std::vector<float> values(static_cast<std::size_t>(weights.size()), std::nanf(""));
  weights.copy_from(std::span<float const>(values));
  CHECK(sentence([&] { t.generate(prompt, 3); }).starts_with("generate: a logit of new token 1 is NaN or +infinity"));
}

TEST_CASE("a prompt in braces is a list of tokens") {
  ct::trainer<ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 8, .vocabulary = 256, .context = 8}, ct::causal_lm,
                       ct::micro_batch{.sequences = 1}>>
      t;
  std::vector<std::int32_t> const prompt{0, 5};
  CHECK(t.generate({0, 5}, 3) == t.generate(prompt, 3));
}

TEST_CASE("a class that is no token ends a list of tokens, but nothing follows it and it is no text") {
  ct::trainer<ct::task<bytes_and_end{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 4}>> t;
  for (auto const& p : t.parameters()) {
    if (p.name != "head.bias") continue;
    std::vector<float> bias(257);
    bias[256] = 1e4f;
    p.copy_from(std::span<float const>(bias));
  }
  CHECK(t.generate({7}, 1) == std::vector<std::int32_t>{7, 256});
  constexpr auto* said = "generate: the model has chosen class 256, but its inputs are tokens from 0 to 255; give the "
                         "head as many classes as there are tokens, or call generate(tokens, 1) repeatedly and "
                         "stop when it returns such a class";
  CHECK(sentence([&] { t.generate({7}, 2); }) == said);
  CHECK(sentence([&] { t.generate("a", 1); }) == said);
}
