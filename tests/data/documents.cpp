#include "../sentence.hpp"

#include <constrain/data/documents.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace ct = constrain;
namespace data = constrain::data;
using ct::test::sentence;

namespace {

int allocations_before_failure = -1; // operator new succeeds so many times, and then fails; -1: always succeeds

} // namespace

void* operator new(std::size_t size) {
  if (allocations_before_failure == 0) throw std::bad_alloc();
  if (allocations_before_failure > 0) --allocations_before_failure;
  if (auto* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using integers = std::vector<std::int32_t>;

integers tokens_of(data::documents const& all, std::int64_t i) {
  auto const tokens = all.tokens(i);
  return {tokens.begin(), tokens.end()};
}

} // namespace

TEST_CASE("documents keep their tokens and classes") {
  data::documents all;
  CHECK(all.size() == 0);
  all.add(integers{1, 2, 3});
  all.add(integers{7}, 4);
  CHECK(all.size() == 2);
  CHECK(all.all_tokens() == 4);
  CHECK(tokens_of(all, 0) == integers{1, 2, 3});
  CHECK(tokens_of(all, 1) == integers{7});
  CHECK(all.label(0) == ct::ignored_label);
  CHECK(all.label(1) == 4);
  CHECK(sentence([&] { all.add({}); }) == "document 2 has no tokens; give at least one");
  CHECK(sentence([&] {
          all.add(integers{1, -1});
        }) == "document 2 has the token -1 at position 1; give tokens from 0 on");
  CHECK(sentence([&] { all.add(integers{1}, -2); }) ==
        "document 2 has the class -2; give a class from 0 on, or ignored_label");
  CHECK(all.size() == 2); // what was refused left nothing
  CHECK(all.all_tokens() == 4);
}

TEST_CASE("a document may be repeated") {
  data::documents all;
  all.add(integers{1, 2, 3});
  for (int i = 0; i < 20; ++i) all.add(all.tokens(i)); // with and without room for more tokens
  for (int i = 0; i <= 20; ++i) CHECK(tokens_of(all, i) == integers{1, 2, 3});
}

TEST_CASE("a corpus is split where documents end") {
  auto const all = data::split_documents(data::corpus::from_bytes("one.two..last"), '.');
  REQUIRE(all.size() == 4);
  CHECK(tokens_of(all, 0) == integers{'o', 'n', 'e', '.'});
  CHECK(tokens_of(all, 2) == integers{'.'});
  CHECK(tokens_of(all, 3) == integers{'l', 'a', 's', 't'});
  CHECK(data::split_documents(data::corpus::from_bytes("a."), '.').size() == 1);
  CHECK(sentence([] { data::split_documents(data::corpus::from_bytes("a."), 256); }) ==
        "split_documents: the token 256 is not in the corpus's vocabulary of 256 tokens; give the token that ends each "
        "document");
  CHECK(sentence([] { data::split_documents(data::corpus::from_bytes("a."), -1); }) != "");
}

TEST_CASE("documents on the edges of what is read at once") {
  for (std::size_t const length : {65534u, 65535u, 65536u, 65537u, 140000u}) {
    auto const all = data::split_documents(
        data::corpus::from_bytes(std::string(length, 'a') + ".b." + std::string(70000, 'c')), '.');
    REQUIRE(all.size() == 3);
    CHECK(all.tokens(0).size() == length + 1);
    CHECK(tokens_of(all, 1) == integers{'b', '.'});
    CHECK(all.tokens(2).size() == 70000);
  }
}

TEST_CASE("documents keep the mask of prompts") {
  constexpr auto no = ct::ignored_label;
  auto const labels_of = [](data::documents const& all, std::int64_t i) {
    integers labels;
    for (std::size_t at = 0; at < all.tokens(i).size(); ++at) labels.push_back(all.token_label(i, at));
    return labels;
  };
  auto const corpus = data::corpus::from_bytes("ab.cd.e", {true, false, false, false, true, false, false});
  auto const all = data::split_documents(corpus, '.');
  CHECK(labels_of(all, 0) == integers{no, 'b', '.'});
  CHECK(labels_of(all, 1) == integers{'c', no, '.'});
  CHECK(labels_of(all, 2) == integers{'e'});
  CHECK(tokens_of(all, 0) == integers{'a', 'b', '.'}); // prompts remain inputs
  data::documents some;
  some.add(integers{1, 2});
  some.add(integers{3, 4}, 5, {true, false});
  some.add(integers{6});
  CHECK(labels_of(some, 0) == integers{1, 2});
  CHECK(labels_of(some, 1) == integers{no, 4});
  CHECK(labels_of(some, 2) == integers{6});
  CHECK(sentence([&] {
          some.add(integers{1, 2}, 0, {true});
        }) == "document 3 has 2 tokens and 1 prompt mark; give one mark per token, or none");
  CHECK(some.size() == 3);
}

TEST_CASE("documents are unchanged if memory runs out while one is added") {
  integers const tokens(100, 1);
  std::vector<bool> const prompt(100, true);
  int failures = 0;
  for (bool failed = true; failed; ++failures) {
    data::documents all;
    all.add(integers{1, 2});
    failed = false;
    allocations_before_failure = failures;
    try {
      all.add(tokens, 3, prompt);
    } catch (std::bad_alloc const&) { failed = true; }
    allocations_before_failure = -1;
    if (!failed) break;
    CAPTURE(failures);
    CHECK(all.size() == 1);
    CHECK(all.all_tokens() == 2);
    all.add(integers{4, 5}, 6);
    CHECK(tokens_of(all, 0) == integers{1, 2});
    CHECK(tokens_of(all, 1) == integers{4, 5});
    CHECK(all.token_label(1, 0) == 4); // none of the failed document's prompt marks
    CHECK(all.label(1) == 6);
  }
  CHECK(failures >= 4); // tokens, marks, begins and labels
}

TEST_CASE("documents: a moved-from object is empty and may be used again") {
  data::documents all;
  all.add(integers{1, 2});
  auto const moved = std::move(all);
  CHECK(moved.size() == 1);
  CHECK(all.size() == 0);
  all.add(integers{3, 4, 5});
  CHECK(all.size() == 1);
  CHECK(tokens_of(all, 0) == integers{3, 4, 5});
}
