#include "../sentence.hpp"

#include <constrain/base/label.hpp>
#include <constrain/data/masking.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace ct = constrain;
namespace data = constrain::data;
using ct::test::sentence;

namespace {

using integers = std::vector<std::int32_t>;

constexpr data::masking bert{.mask_token = 103, .vocabulary = 30522};

/// What masking makes of `tokens`.
struct masked {
  integers inputs, labels;
  masked(data::masking const& how, integers const& tokens, std::int64_t epoch = 0, std::int64_t example = 0)
      : inputs(tokens), labels(tokens) {
    data::mask_tokens(how, epoch, example, inputs, labels);
  }
  std::vector<std::size_t> chosen() const {
    std::vector<std::size_t> at;
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (labels[i] != ct::ignored_label) at.push_back(i);
    return at;
  }
};

integers counted(std::int32_t count) {
  integers tokens;
  for (std::int32_t i = 0; i < count; ++i) tokens.push_back(1000 + i);
  return tokens;
}

} // namespace

TEST_CASE("the chosen tokens keep their labels, all others have none and keep their token") {
  auto const tokens = counted(512);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    masked const m(bert, tokens, epoch, 7);
    CHECK(m.chosen().size() == 77); // 0.15 x 512 = 76.8
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (m.labels[i] == ct::ignored_label) CHECK(m.inputs[i] == tokens[i]);
      else {
        CHECK(m.labels[i] == tokens[i]);
        CHECK(m.inputs[i] >= 0);
        CHECK(m.inputs[i] < 30522);
      }
  }
}

TEST_CASE("the masks depend on the seed, the epoch and the example, and on nothing else") {
  auto const tokens = counted(100);
  masked const m(bert, tokens, 2, 5), same(bert, tokens, 2, 5);
  CHECK(m.inputs == same.inputs);
  CHECK(m.labels == same.labels);
  auto other = bert;
  other.seed = 1;
  for (auto const& different : {masked(bert, tokens, 3, 5), masked(bert, tokens, 2, 6), masked(other, tokens, 2, 5),
                                masked(bert, tokens, 2, 5 + (std::int64_t{1} << 32))})
    CHECK(different.labels != m.labels);
  // The choices of a machine of today, so that another one can tell a difference.
  masked const fixed({.mask_token = 0, .vocabulary = 10, .share = 0.3, .seed = 42}, counted(10), 1, 1);
  CHECK(fixed.chosen() == std::vector<std::size_t>{1, 6, 9});
  CHECK(fixed.inputs == integers{1000, 0, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009});
}

TEST_CASE("80 % of the chosen tokens become the mask, 10 % a random token, and 10 % stay") {
  auto const tokens = counted(128);
  int mask = 0, kept = 0, random = 0, all = 0;
  std::map<std::size_t, int> times; // how often each position is chosen
  double sum_of_random = 0;
  for (std::int64_t example = 0; example < 4000; ++example) {
    masked const m(bert, tokens, 0, example);
    for (auto const i : m.chosen()) {
      ++times[i], ++all;
      if (m.inputs[i] == bert.mask_token) ++mask;
      else if (m.inputs[i] == tokens[i]) ++kept;
      else ++random, sum_of_random += m.inputs[i];
    }
  }
  CHECK(all == 4000 * 19);                                         // 0.15 x 128 = 19.2
  CHECK(mask / double(all) == doctest::Approx(0.8).epsilon(0.01)); // the stddev is 0.0015
  CHECK(kept / double(all) == doctest::Approx(0.1).epsilon(0.05)); // and here 0.0011
  CHECK(random / double(all) == doctest::Approx(0.1).epsilon(0.05));
  CHECK(sum_of_random / random == doctest::Approx(30521 / 2.0).epsilon(0.03)); // the stddev is 101
  CHECK(times.size() == 128);
  double statistic = 0; // chi squared of 127 degrees of freedom, at most: 127 +- 16
  for (auto const& [position, n] : times) statistic += (n - all / 128.0) * (n - all / 128.0) / (all / 128.0);
  CHECK(statistic < 127 + 5 * 16);
  CHECK(statistic > 127 * 0.85 - 5 * 16);
}

TEST_CASE("tokens with an ignored label are never chosen, and count for no share") {
  integers inputs = counted(40), labels = inputs;
  for (std::size_t i = 0; i < 40; ++i)
    if (i == 0 || i >= 21) labels[i] = ct::ignored_label;
  for (std::int64_t example = 0; example < 50; ++example) {
    auto in = inputs, of = labels;
    data::mask_tokens(bert, 0, example, in, of);
    CHECK(std::count(of.begin(), of.end(), ct::ignored_label) == 37); // 0.15 x 20 = 3 are chosen
    for (std::size_t i = 0; i < 40; ++i)
      if (labels[i] == ct::ignored_label) CHECK((in[i] == inputs[i] && of[i] == ct::ignored_label));
  }
  integers none(5, ct::ignored_label), five = counted(5);
  data::mask_tokens(bert, 0, 0, five, none);
  CHECK(five == counted(5));
}

TEST_CASE("the number of chosen tokens") {
  CHECK(data::count_masked(bert, 0) == 0);
  CHECK(data::count_masked(bert, 1) == 1); // at least one
  CHECK(data::count_masked(bert, 9) == 1);
  CHECK(data::count_masked(bert, 11) == 2);
  CHECK(data::count_masked(bert, 512) == 77);
  CHECK(data::count_masked({.mask_token = 0, .vocabulary = 1, .share = 1}, 7) == 7);
  masked const all({.mask_token = 1, .vocabulary = 2, .share = 1, .masked = 1, .random = 0}, counted(20));
  CHECK(all.inputs == integers(20, 1));
  CHECK(all.labels == counted(20));
  masked const kept({.mask_token = 1, .vocabulary = 2, .share = 1, .masked = 0, .random = 0}, counted(20));
  CHECK(kept.inputs == counted(20));
  masked const random({.mask_token = 1, .vocabulary = 2, .share = 1, .masked = 0, .random = 1}, counted(20));
  for (auto const token : random.inputs) CHECK((token == 0 || token == 1));
}

TEST_CASE("spans: as many tokens are chosen, next to each other, and replaced alike") {
  auto how = bert;
  how.span = 3;
  auto const tokens = counted(128); // 19 are chosen: six spans of 3, and one token
  std::map<std::size_t, int> times;
  int masked_spans = 0, spans = 0;
  for (std::int64_t example = 0; example < 2000; ++example) {
    masked const m(how, tokens, 0, example);
    auto const chosen = m.chosen();
    REQUIRE(chosen.size() == 19);
    int shorter = 0;
    for (std::size_t i = 0, n = 0; i < 19; i += n) { // runs of chosen tokens: spans may touch
      for (n = 1; i + n < 19 && chosen[i + n] == chosen[i] + n; ++n) {}
      shorter += n % 3 == 1;
      CHECK(n % 3 != 2);
      if (n != 3) continue;
      ++spans;
      bool const is_masked = m.inputs[chosen[i]] == how.mask_token;
      masked_spans += is_masked;
      for (std::size_t k = 1; k < 3; ++k) CHECK((m.inputs[chosen[i + k]] == how.mask_token) == is_masked);
    }
    CHECK(shorter == 1);
    for (auto const i : chosen) ++times[i];
  }
  CHECK(masked_spans / double(spans) == doctest::Approx(0.8).epsilon(0.02)); // the stddev is 0.0037
  CHECK(times.size() == 128);
  for (std::size_t i = 8; i < 120; ++i) // each is chosen in 15 % of the examples: 297, the stddev is 16
    CHECK(times[i] == doctest::Approx(297).epsilon(0.3));
}

TEST_CASE("spans: all places are equally likely") {
  // Two spans of two among six tokens: the ends of the row and of the spans leave six ways.
  data::masking const how{.mask_token = 0, .vocabulary = 1, .share = 0.67, .span = 2};
  std::map<std::vector<std::size_t>, int> times;
  for (std::int64_t example = 0; example < 6000; ++example) ++times[masked(how, counted(6), 0, example).chosen()];
  // 0123, 01 34, 01 45, 12 34 (1234), 12 45, 23 45 (2345)
  CHECK(times.size() == 6);
  for (auto const& [chosen, n] : times) CHECK(n == doctest::Approx(1000).epsilon(0.15)); // the stddev is 29
}

TEST_CASE("spans: a span longer than what is chosen, and tokens that must not be chosen") {
  auto how = bert;
  how.span = 10;
  masked const m(how, counted(20)); // 3 are chosen
  REQUIRE(m.chosen().size() == 3);
  CHECK(m.chosen()[2] == m.chosen()[0] + 2);
  how.share = 1;
  CHECK(masked(how, counted(20)).chosen().size() == 20);
  integers inputs = counted(30), labels = inputs;
  for (std::size_t i = 0; i < 30; i += 3) labels[i] = ct::ignored_label;
  how.share = 0.2, how.span = 2;
  data::mask_tokens(how, 0, 0, inputs, labels);
  CHECK(std::count(labels.begin(), labels.end(), ct::ignored_label) == 26); // 20 candidates, 4 chosen
  for (std::size_t i = 0; i < 30; i += 3) CHECK(labels[i] == ct::ignored_label);
}

TEST_CASE("a masking that is out of range is refused") {
  auto const said = [](data::masking const& how) { return sentence([&] { data::check_masking(how); }); };
  CHECK(said(bert) == "");
  CHECK(said({}) == "masking: .vocabulary is 0; give an integer of at least 1");
  CHECK(said({.vocabulary = 5}) == "masking: .mask_token is -1; give an integer of at least 0");
  CHECK(said({.mask_token = 5, .vocabulary = 5}) ==
        "masking: .mask_token is 5, but .vocabulary is 5; give a .vocabulary above .mask_token");
  for (double const share : {-0.1, 0.0, 1.5}) {
    auto const text = said({.mask_token = 1, .vocabulary = 5, .share = share});
    CHECK(text.starts_with("masking: .share is "));
    CHECK(text.ends_with("; give a number above 0 and at most 1"));
  }
  CHECK(said({.mask_token = 1, .vocabulary = 5, .masked = 1.1}).starts_with("masking: .masked is 1.1"));
  CHECK(said({.mask_token = 1, .vocabulary = 5, .random = -1}).starts_with("masking: .random is -1"));
  CHECK(said({.mask_token = 1, .vocabulary = 5, .span = 0}) == "masking: .span is 0; give an integer of at least 1");
  CHECK(said({.mask_token = 1, .vocabulary = 5, .masked = 0.8, .random = 0.3}) ==
        "masking: .masked is 0.8 and .random is 0.3; give shares whose sum is at most 1");
  integers five = counted(5), four = counted(4);
  CHECK(sentence([&] { data::mask_tokens(bert, 0, 0, five, four); }) ==
        "mask_tokens: there are 5 tokens and 4 labels; give one label per token");
}
