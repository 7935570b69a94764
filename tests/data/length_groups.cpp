#include "../sentence.hpp"
#include "copy_of.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <vector>

namespace ct = constrain;
namespace data = constrain::data;
using ct::ignored_label, ct::test::copy_of, ct::test::sentence;

namespace {

using integers = std::vector<std::int32_t>;

/// Document i has `lengths[i]` tokens, 10 i + 1, 10 i + 2, ..., and the class i % 2.
data::documents of_lengths(std::vector<int> const& lengths) {
  data::documents all;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    integers tokens;
    for (int k = 0; k < lengths[i]; ++k) tokens.push_back(static_cast<std::int32_t>(10 * i) + k + 1);
    all.add(tokens, static_cast<std::int32_t>(i % 2));
  }
  return all;
}

struct classifier {
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "lengths", .each = ct::per::sequence}};
  constexpr ct::value operator()(ct::value tokens, ct::value lengths) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 100, .width = 6});
    auto const y = ct::self_attention(ct::linear("qkv", x, 18), lengths, {.heads = 1, .causal = false});
    return ct::linear("head", ct::select_token(y, 0), 2);
  }
};
using task = ct::task<classifier{}, ct::classification, ct::micro_batch{.sequences = 2, .tokens = 4}>;

} // namespace

TEST_CASE("documents are padded to multiples, and grouped by these") {
  auto const groups = data::group_by_length(of_lengths({3, 1, 5, 4, 2}), {.multiple = 2});
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].length == 2);
  CHECK(copy_of(groups[0].padded.inputs()[0]) == integers{11, 0, /**/ 41, 42});
  CHECK(copy_of(groups[0].padded.inputs()[1]) == integers{1, 2});
  CHECK(copy_of(groups[0].padded.labels()[0]) == integers{ignored_label, ignored_label, /**/ 42, ignored_label});
  CHECK(groups[1].length == 4);
  CHECK(copy_of(groups[1].padded.inputs()[0]) == integers{1, 2, 3, 0, /**/ 31, 32, 33, 34});
  CHECK(copy_of(groups[1].padded.labels()[0]) ==
        integers{2, 3, ignored_label, ignored_label, /**/ 32, 33, 34, ignored_label});
  CHECK(groups[2].length == 6);
  CHECK(copy_of(groups[2].padded.inputs()[1]) == integers{5});
}

TEST_CASE("documents that are too long are cut, and their labels go on") {
  auto const next = data::group_by_length(of_lengths({9, 2}), {.multiple = 4, .longest = 4});
  REQUIRE(next.size() == 1);
  CHECK(copy_of(next[0].padded.inputs()[0]) == integers{1, 2, 3, 4, /**/ 11, 12, 0, 0});
  CHECK(copy_of(next[0].padded.inputs()[1]) == integers{4, 2});
  CHECK(copy_of(next[0].padded.labels()[0]) ==
        integers{2, 3, 4, 5, /**/ 12, ignored_label, ignored_label, ignored_label});
  auto const same = data::group_by_length(of_lengths({9, 2}),
                                          {.multiple = 4, .longest = 4, .labels = data::document_labels::same_tokens});
  CHECK(copy_of(same[0].padded.labels()[0]) == integers{1, 2, 3, 4, /**/ 11, 12, ignored_label, ignored_label});
  auto const classes = data::group_by_length(of_lengths({9, 2}),
                                             {.multiple = 4, .longest = 4, .labels = data::document_labels::classes});
  CHECK(copy_of(classes[0].padded.labels()[0]) == integers{0, 1});
}

TEST_CASE("prompts of padded documents are not labels") {
  data::documents all;
  all.add(integers{1, 2, 3, 4, 5}, ignored_label, {true, false, false, true, true});
  auto const next = data::group_by_length(all, {.multiple = 8});
  constexpr auto no = ignored_label;
  CHECK(copy_of(next[0].padded.inputs()[0]) == integers{1, 2, 3, 4, 5, 0, 0, 0});
  CHECK(copy_of(next[0].padded.labels()[0]) == integers{2, 3, no, no, no, no, no, no});
  auto const same =
      data::group_by_length(all, {.multiple = 3, .longest = 3, .labels = data::document_labels::same_tokens});
  CHECK(copy_of(same[0].padded.labels()[0]) == integers{no, 2, 3});
  CHECK(copy_of(data::group_by_length(all, {.multiple = 3, .longest = 3})[0].padded.labels()[0]) == integers{2, 3, no});
}

TEST_CASE("every document is in one group, with the least padding") {
  std::vector<int> lengths;
  for (int i = 0; i < 60; ++i) lengths.push_back(1 + i * 7 % 29);
  auto const all = of_lengths(lengths);
  std::size_t documents = 0;
  std::int64_t before = 0;
  std::set<std::int32_t> firsts;
  for (auto const& group : data::group_by_length(all, {.multiple = 8})) {
    CHECK(group.length % 8 == 0);
    CHECK(group.length > before);
    before = group.length;
    auto const tokens = group.padded.inputs()[0].integers(), kept = group.padded.inputs()[1].integers();
    REQUIRE(tokens.size() == kept.size() * static_cast<std::size_t>(group.length));
    for (std::size_t i = 0; i < kept.size(); ++i) {
      CHECK((kept[i] <= group.length && kept[i] > group.length - 8));
      firsts.insert(tokens[i * static_cast<std::size_t>(group.length)]);
    }
    documents += kept.size();
  }
  CHECK(documents == 60);
  CHECK(firsts.size() == 60);
}

TEST_CASE("a trainer takes the group of its length") {
  auto const groups =
      data::group_by_length(of_lengths({3, 8, 4, 3, 4}), {.multiple = 4, .labels = data::document_labels::classes});
  REQUIRE(groups.size() == 2);
  ct::trainer<task> t({.learning_rate = 1e-2f});
  auto const& padded = groups[0].padded;
  CHECK(ct::fit(t, padded, {.steps = 60, .validation = &padded, .log = nullptr}).validation->accuracy == 1);
}

TEST_CASE("options of groups that are out of range are refused") {
  auto const some = of_lengths({2});
  CHECK(sentence([&] { data::group_by_length(some, {.multiple = 0}); }) ==
        "length_group_options: .multiple is 0; give an integer of at least 1");
  CHECK(sentence([&] { data::group_by_length(some, {.longest = -1}); }) ==
        "length_group_options: .longest is -1; give an integer of at least 0");
  CHECK(sentence([&] { data::group_by_length(some, {.multiple = 8, .longest = 12}); }) ==
        "length_group_options: .longest is 12, which is not a multiple of .multiple, 8; give a multiple");
  CHECK(sentence([&] { data::group_by_length({}); }) == "group_by_length: there are no documents; add at least one");
  auto const said = sentence([&] { data::group_by_length(some, {.multiple = std::int64_t{1} << 60}); });
  CHECK(said.starts_with("a document padded to a multiple of .multiple has 1152921504606846976 tokens of 8 bytes, more "
                         "than the "));
  CHECK(said.ends_with("; give a smaller .multiple or shorter documents"));
  CHECK(sentence([&] {
          data::group_by_length(some, {.labels = static_cast<data::document_labels>(9)});
        }).starts_with("length_group_options: .labels is not one of"));
}
