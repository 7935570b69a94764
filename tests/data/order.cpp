#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "../sentence.hpp"
#include "constrain/data/order.hpp"

namespace data = constrain::data;
using constrain::test::sentence;

namespace {

bool is_bijection(std::uint64_t seed, std::int64_t epoch, std::int64_t count) {
  data::permutation const order(seed, epoch, count);
  std::vector<bool> seen(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    auto const s = order(i);
    if (s < 0 || s >= count || seen[static_cast<std::size_t>(s)]) return false;
    seen[static_cast<std::size_t>(s)] = true;
  }
  return true;
}

/// The same for counts below 32, in constant expressions.
constexpr bool small_bijection(std::int64_t count) {
  std::uint32_t seen = 0;
  for (std::int64_t i = 0; i < count; ++i) seen |= 1u << data::permutation(42, 3, count)(i);
  return seen == (1u << count) - 1;
}

static_assert(small_bijection(1) && small_bijection(2) && small_bijection(3) && small_bijection(4));
static_assert(small_bijection(5) && small_bijection(7) && small_bijection(16) && small_bijection(17));

constexpr data::position advanced(data::position p, std::int64_t count) {
  p.advance(count);
  return p;
}
static_assert(advanced({0, 0}, 3) == data::position{0, 1});
static_assert(advanced({4, 2}, 3) == data::position{5, 0});
static_assert(advanced({0, 0}, 1) == data::position{1, 0});
static_assert([] { // several at once are as many one by one
  for (std::int64_t const count : {1, 3, 5})
    for (std::int64_t samples = 0; samples < 12; ++samples) {
      data::position once{2, count - 1}, each = once;
      once.advance(count, samples);
      for (std::int64_t i = 0; i < samples; ++i) each.advance(count);
      if (once != each) return false;
    }
  return true;
}());
static_assert(data::samples(17, 16) == 1);
static_assert(data::samples(32, 16) == 1);
static_assert(data::samples(33, 16) == 2);
static_assert(data::samples(2, 1) == 1);

} // namespace

TEST_CASE("order: every sample comes once an epoch") {
  for (std::int64_t count = 1; count <= 300; ++count) CHECK(is_bijection(7, count % 5, count));
  for (std::int64_t const count : {1023, 1024, 1025, 4096, 4097, 65537, 100'003}) CHECK(is_bijection(1, 0, count));
}

TEST_CASE("order: the largest counts stay in range") {
  auto const largest = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t const count : {std::int64_t{1} << 40, (std::int64_t{1} << 62) + 1, largest})
    for (std::int64_t i : {std::int64_t{0}, count / 3, count - 1}) {
      auto const s = data::permutation(5, 0, count)(i);
      CHECK(s >= 0);
      CHECK(s < count);
    }
}

TEST_CASE("order: seed and epoch make other orders, every place is equally likely") {
  auto const order = [](std::uint64_t seed, std::int64_t epoch) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < 64; ++i) all.push_back(data::permutation(seed, epoch, 64)(i));
    return all;
  };
  CHECK(order(1, 0) == order(1, 0));
  CHECK(order(1, 0) != order(2, 0));
  CHECK(order(1, 0) != order(1, 1));
  CHECK(order(1, 0) != order(std::uint64_t{1} << 32 | 1, 0));
  CHECK(order(1, 0) != order(1, std::int64_t{1} << 32));

  // Chi-squared over the 10 x 10 table of (place, sample): 81 degrees of freedom, so 150 is 5.4 deviations away.
  constexpr int count = 10, epochs = 20'000;
  double table[count][count]{}, follows[count][count]{};
  for (int e = 0; e < epochs; ++e) {
    data::permutation const p(9, e, count);
    for (int i = 0; i < count; ++i) ++table[i][p(i)];
    for (int i = 0; i + 1 < count; ++i) ++follows[p(i)][p(i + 1)];
  }
  double chi = 0, pairs = 0;
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < count; ++j) {
      double const expected = double(epochs) / count, together = double(epochs) / count;
      chi += (table[i][j] - expected) * (table[i][j] - expected) / expected;
      if (i != j) pairs += (follows[i][j] - together) * (follows[i][j] - together) / together;
    }
  CHECK(chi < 150);
  CHECK(pairs < 180);
}

TEST_CASE("order: a position is all that a resumed run needs") {
  constexpr std::int64_t count = 5;
  std::vector<std::int64_t> whole, resumed;
  data::position p;
  for (int i = 0; i < 23; ++i, p.advance(count)) whole.push_back(p.in_corpus(42, count));
  for (int stop = 0; stop < 23; ++stop) {
    data::position q;
    resumed.clear();
    for (int i = 0; i < stop; ++i, q.advance(count)) resumed.push_back(q.in_corpus(42, count));
    data::position copy{q.epoch, q.sample};
    for (int i = stop; i < 23; ++i, copy.advance(count)) resumed.push_back(copy.in_corpus(42, count));
    CHECK(resumed == whole);
  }
  CHECK(p == data::position{4, 3});
}

TEST_CASE("order: what cannot be is a sentence") {
  CHECK(sentence([] { data::samples(17, 64); }) ==
        "the corpus has 17 tokens, but a context of 64 needs at least 65; give more text or use a shorter context");
  CHECK(sentence([] {
          data::samples(17, 64, "fit, .validation");
        }).starts_with("fit, .validation: the corpus has 17 tokens, but a context of 64 needs at least 65; "));
  CHECK_FALSE(sentence([] { data::samples(64, 64); }).empty());
  CHECK_FALSE(sentence([] { data::samples(0, 1); }).empty());
  CHECK_FALSE(sentence([] { data::samples(1, std::numeric_limits<std::int64_t>::max()); }).empty());
  CHECK(sentence([] { data::samples(17, 0, "evaluate"); }) ==
        "evaluate: a context of 0 tokens is too short; give at least 1");
  CHECK(sentence([] { data::samples(17, 0); }) == "a context of 0 tokens is too short; give at least 1");
  CHECK(sentence([] { data::permutation(1, 0, 0); }) == "permutation: there are 0 samples to shuffle; give at least 1");
  CHECK(sentence([] {
          data::position{0, 9}.in_corpus(1, 5);
        }) == "permutation: sample 9 is outside an epoch of 5 samples; give an index from 0 to 4");
  CHECK_FALSE(sentence([] { data::position{0, -1}.in_corpus(1, 5); }).empty());
}
