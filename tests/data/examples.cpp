#include "../sentence.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

// Examples know their content by a hash, and are split at random.

namespace ct = constrain;
using ct::data::examples;
using ct::test::sentence;

namespace {

using integers = std::vector<std::int32_t>;
using reals = std::vector<float>;

std::multiset<std::int64_t> members(examples const& of, std::int64_t count) {
  ct::data::examples_index const index(of.splits(), count);
  std::multiset<std::int64_t> found;
  for (std::int64_t i = 0; i < index.size(); ++i) found.insert(index(i));
  return found;
}

} // namespace

TEST_CASE("the fingerprint tells contents, types, shapes and roles apart") {
  integers const x{1, 2, 3, 4}, same{1, 2, 3, 4}, other{1, 2, 3, 5}, y{0, 1};
  auto const print = [](auto const&... given) { return examples(given...).fingerprint(); };
  CHECK(print(x, y) == print(same, y));
  CHECK(print(x, y) != print(other, y));
  CHECK(print(x, y) != print(y, x));
  CHECK(print(x, y) != print(x, y, ct::labels::shift));
  CHECK((print(x, y) >> 32) == 24); // bytes
  using list = ct::array_list;
  CHECK(print(list{x, y}, y) != print(x, list{y, y}));
  reals const zeros(2, 0.f);
  CHECK(print(x, zeros) != print(x, integers(2, 0)));                                  // the same bytes
  CHECK(print(list{x, y}, y) != print(list{integers{1, 2, 3}, integers{4, 0, 1}}, y)); // the same bytes in a row
}

TEST_CASE("a part has its own fingerprint") {
  integers const x{1, 2, 3, 4}, y{0, 1, 0, 1};
  examples const all(x, y);
  auto const half = all.split(0.5), again = all.split(0.5), other = all.split(0.5, 1), quarter = all.split(0.25);
  CHECK(half.train.fingerprint() == again.train.fingerprint());
  std::set<std::uint64_t> const prints{all.fingerprint(),
                                       half.train.fingerprint(),
                                       half.validation.fingerprint(),
                                       other.train.fingerprint(),
                                       quarter.train.fingerprint(),
                                       half.train.split(0.5).train.fingerprint(),
                                       all.split(0.5, 0, 1).train.fingerprint()};
  CHECK(prints.size() == 7);
}

TEST_CASE("a split puts every example in one part") {
  integers const x(40), y(40);
  examples const all(x, y);
  for (double const fraction : {0.0, 0.1, 0.5, 1.0})
    for (std::uint64_t const seed : {0u, 1u}) {
      CAPTURE(fraction);
      auto const parts = all.split(fraction, seed);
      auto train = members(parts.train, 40);
      auto const validation = members(parts.validation, 40);
      CHECK(static_cast<double>(validation.size()) == fraction * 40);
      train.insert(validation.begin(), validation.end());
      REQUIRE(train.size() == 40);
      CHECK(std::set(train.begin(), train.end()).size() == 40);
      CHECK((*train.begin() == 0 && *train.rbegin() == 39));
    }
  auto const drawn = members(all.split(0.5).validation, 40);
  CHECK(drawn == members(all.split(0.5).validation, 40));
  CHECK(drawn != members(all.split(0.5, 1).validation, 40));
  CHECK(*drawn.rbegin() > 20); // from everywhere
  CHECK(members(all.split(0.5, 0, 3).validation, 40).size() == 3);
  CHECK(members(all.split(0.5, 0, 3).train, 40).size() == 37);
  CHECK(members(all.split(0.1).validation, 9).empty());
}

TEST_CASE("a part is split again") {
  integers const x(30), y(30);
  auto const outer = examples(x, y).split(0.5);
  auto const inner = outer.train.split(0.4, 7);
  auto all = members(outer.validation, 30);
  CHECK(members(inner.validation, 30).size() == 6);
  for (auto const& part : {inner.train, inner.validation})
    for (auto const i : members(part, 30)) all.insert(i);
  CHECK(all.size() == 30);
  CHECK(std::set(all.begin(), all.end()).size() == 30);
  CHECK(members(examples(x, y).split(1).train.split(0.5).train, 30).empty()); // of nothing
}

TEST_CASE("a fraction out of range and too many splits are refused") {
  integers const x(4), y(4);
  auto part = examples(x, y);
  for (int i = 0; i < 8; ++i) part = part.split(0.1).train;
  CHECK(sentence([&] { part.split(0.1); }) ==
        "split: the examples are already the result of 8 nested splits; split fewer times");
  CHECK(sentence([&] { examples(x, y).split(1.5); }) ==
        "split: a validation fraction of 1.5 is out of range; give one from 0 to 1");
  CHECK(sentence([&] { examples(x, y).split(0.5, 0, -1); }) ==
        "split: a maximum of -1 examples is out of range; give 0 or more");
  CHECK(sentence([&] { examples(x, y, static_cast<ct::labels>(7)); }) ==
        "examples: the kind of labels is 7; give labels::shifted or labels::shift");
}

TEST_CASE("examples keep their storage alive") {
  struct arrays {
    integers x{1, 2}, y{0, 1};
  };
  auto own = std::make_shared<arrays>();
  std::weak_ptr<arrays> const seen = own;
  auto kept = std::make_unique<examples>(examples::from_storage(own, own->x, own->y));
  CHECK(kept->fingerprint() == examples(own->x, own->y).fingerprint());
  own.reset();
  auto part = std::make_unique<examples>(kept->split(0.5).train);
  kept.reset();
  CHECK_FALSE(seen.expired());
  CHECK(part->inputs()[0].integers()[1] == 2);
  part.reset();
  CHECK(seen.expired());
}

static_assert(ct::data::is_dataset<ct::data::corpus> && ct::data::is_dataset<examples>);
static_assert(!ct::data::is_dataset<integers> && !ct::data::is_dataset<ct::array_list>);
