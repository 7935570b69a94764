#include "../sentence.hpp"
#include "copy_of.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <random>
#include <vector>

namespace ct = constrain;
namespace data = constrain::data;
using ct::ignored_label, ct::test::copy_of, ct::test::sentence;

namespace {

std::size_t allocated = 0; // bytes, by operator new

} // namespace

void* operator new(std::size_t size) {
  allocated += size;
  if (auto* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using integers = std::vector<std::int32_t>;

/// Documents of these lengths; the tokens of document i are `first` + 1000 i, `first` + 1000 i + 1, ...
data::documents of_lengths(std::vector<int> const& lengths, std::int32_t first = 0) {
  data::documents all;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    integers tokens;
    for (int k = 0; k < lengths[i]; ++k) tokens.push_back(first + static_cast<std::int32_t>(i) * 1000 + k);
    all.add(tokens);
  }
  return all;
}

std::vector<int> random_lengths(int count, int most, std::uint32_t seed) {
  std::vector<int> lengths;
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    lengths.push_back(1 + static_cast<int>((seed >> 16) % static_cast<std::uint32_t>(most)));
  }
  return lengths;
}

/// The number of rows of best-fit decreasing, by looking at every row for every document.
std::size_t rows_of_best_fit(std::vector<int> lengths, int row) {
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  std::vector<int> rooms;
  for (int const length : lengths) {
    int best = -1;
    for (int i = 0; i < static_cast<int>(rooms.size()); ++i) {
      auto const room = rooms[static_cast<std::size_t>(i)];
      if (room >= length && (best < 0 || room < rooms[static_cast<std::size_t>(best)])) best = i;
    }
    if (best < 0) rooms.push_back(row - length);
    else rooms[static_cast<std::size_t>(best)] -= length;
  }
  return rooms.size();
}

struct no_boundaries {
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "positions"}};
  constexpr ct::value operator()(ct::value tokens, ct::value positions) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 4000, .width = 4}) +
                   ct::embedding("position", positions, {.vocabulary = 8, .width = 4});
    return ct::linear("head", x, 4000);
  }
};
using task = ct::task<no_boundaries{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 8}>;

} // namespace

TEST_CASE("documents are packed into the rows that they fit best") {
  // Of length 6, 4, 3, 2 and 1: 6 + 2 = 8, 4 + 3 + 1 = 8.
  auto const packed = data::pack(of_lengths({3, 1, 6, 2, 4}), {.length = 8});
  CHECK(copy_of(packed.inputs()[0]) ==
        integers{2000, 2001, 2002, 2003, 2004, 2005, 3000, 3001, /**/ 4000, 4001, 4002, 4003, 0, 1, 2, 1000});
  CHECK(copy_of(packed.inputs()[1]) == integers{0, 1, 2, 3, 4, 5, 0, 1, /**/ 0, 1, 2, 3, 0, 1, 2, 0});
  constexpr auto none = ignored_label;
  CHECK(copy_of(packed.labels()[0]) ==
        integers{2001, 2002, 2003, 2004, 2005, none, 3001, none, /**/ 4001, 4002, 4003, none, 1, 2, none, none});
}

TEST_CASE("the room that is left has no labels, and each of its tokens is a document") {
  auto const packed = data::pack(of_lengths({3, 4}), {.length = 5, .labels = data::document_labels::same_tokens});
  CHECK(copy_of(packed.inputs()[0]) == integers{1000, 1001, 1002, 1003, 0, /**/ 0, 1, 2, 0, 0});
  CHECK(copy_of(packed.inputs()[1]) == integers{0, 1, 2, 3, 0, /**/ 0, 1, 2, 0, 0});
  CHECK(copy_of(packed.labels()[0]) ==
        integers{1000, 1001, 1002, 1003, ignored_label, /**/ 0, 1, 2, ignored_label, ignored_label});
}

TEST_CASE("prompts of packed documents are not labels") {
  auto const all = data::split_documents(data::corpus::from_bytes("ab.cd", {true, false, false, false, true}), '.');
  constexpr auto no = ignored_label;
  auto const next = data::pack(all, {.length = 5});
  CHECK(copy_of(next.inputs()[0]) == integers{'a', 'b', '.', 'c', 'd'});
  CHECK(copy_of(next.labels()[0]) == integers{'b', '.', no, no, no});
  auto const same = data::pack(all, {.length = 5, .labels = data::document_labels::same_tokens});
  CHECK(copy_of(same.labels()[0]) == integers{no, 'b', '.', 'c', no});
}

TEST_CASE("documents longer than a row are cut, and keep the labels across the cuts") {
  auto const packed = data::pack(of_lengths({7, 1}), {.length = 3});
  CHECK(copy_of(packed.inputs()[0]) == integers{0, 1, 2, /**/ 3, 4, 5, /**/ 6, 1000, 0});
  CHECK(copy_of(packed.labels()[0]) ==
        integers{1, 2, 3, /**/ 4, 5, 6, /**/ ignored_label, ignored_label, ignored_label});
  CHECK(copy_of(packed.inputs()[1]) == integers{0, 1, 2, /**/ 0, 1, 2, /**/ 0, 0, 0});
}

TEST_CASE("parts of equal length keep their order") {
  CHECK(copy_of(data::pack(of_lengths({12}), {.length = 3}).inputs()[0]) ==
        integers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
}

TEST_CASE("every token is packed once, in one piece, into as few rows as best-fit decreasing needs") {
  for (int const row : {1, 2, 17, 63, 64, 65, 128, 200})
    for (std::uint32_t seed = 1; seed < 4; ++seed) {
      CAPTURE(row);
      auto const lengths = random_lengths(150, row, seed);
      auto const all = of_lengths(lengths, 1000); // no document has the token 0 of the room that is left
      auto const packed = data::pack(all, {.length = row});
      auto const tokens = packed.inputs()[0].integers(), positions = packed.inputs()[1].integers(),
                 labels = packed.labels()[0].integers();
      auto const length = static_cast<std::size_t>(row);
      CHECK(tokens.size() / length == rows_of_best_fit(lengths, row));
      CHECK(sentence([&] { data::check_positions(positions, row); }) == "");
      std::map<std::int32_t, int> seen;
      std::int64_t labelled = 0;
      for (std::size_t i = 0; i < tokens.size();) {
        if (tokens[i] == 0) { // the room that is left, up to the end of the row
          CHECK((labels[i] == ignored_label && (i % length == length - 1 || tokens[i + 1] == 0)));
          ++i;
          continue;
        }
        auto const document = tokens[i] / 1000;
        ++seen[document];
        auto const n = static_cast<std::size_t>(lengths[static_cast<std::size_t>(document - 1)]);
        REQUIRE(i % length + n <= length);
        for (std::size_t k = 0; k < n; ++k, ++i) {
          CHECK(tokens[i] == document * 1000 + static_cast<std::int32_t>(k));
          CHECK(positions[i] == static_cast<std::int32_t>(k));
          CHECK(labels[i] == (k + 1 < n ? tokens[i] + 1 : ignored_label));
          labelled += labels[i] != ignored_label;
        }
      }
      CHECK(seen.size() == 150);
      for (auto const& [document, times] : seen) CHECK(times == 1);
      CHECK(labelled == all.all_tokens() - 150);
    }
}

TEST_CASE("packed rows waste little") {
  std::vector<int> lengths;
  for (int const each : random_lengths(2000, 900, 5)) lengths.push_back(each);
  auto const all = of_lengths(lengths);
  auto const packed = data::pack(all, {.length = 1024});
  auto const used = static_cast<double>(all.all_tokens()) / static_cast<double>(packed.inputs()[0].size());
  CHECK(used > 0.99); // padded to 1024 tokens, it would be 0.44
}

TEST_CASE("long rows take no memory but their own") {
  auto const all = of_lengths({3, 1, 6, 2});
  constexpr std::size_t length = 1'000'000;
  auto const before = allocated;
  auto const packed = data::pack(all, {.length = length});
  CHECK(allocated - before < 3 * sizeof(std::int32_t) * length + 10'000);
  CHECK(packed.inputs()[0].size() == length);
}

TEST_CASE("a trainer takes packed documents") {
  auto const packed = data::pack(of_lengths({3, 1, 6, 2}), {.length = 8});
  ct::trainer<task> t({.learning_rate = 1e-2f});
  auto const before = t.evaluate(packed);
  CHECK(before.tokens == 8);
  CHECK(ct::fit(t, packed, {.steps = 30, .validation = &packed, .log = nullptr}).validation->loss < before.loss);
}

TEST_CASE("a row may have more padding than a learned position embedding has positions") {
  constexpr ct::gpt2 model{.layers = 1, .heads = 1, .width = 8, .vocabulary = 40, .context = 4, .packed = true};
  using packed_task = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
  data::documents all;
  for (int i = 0; i < 5; ++i) all.add(integers{i, i + 10, i + 20, i + 30});
  auto const packed = data::pack(all, {.length = 16});
  CHECK(ct::trainer<packed_task>{}.evaluate(packed).tokens == 5 * 3);
}

TEST_CASE("options of packing and positions that are wrong are refused") {
  auto const some = of_lengths({2});
  CHECK(sentence([&] { data::pack(some, {}); }) == "packing_options: .length is 0; give an integer of at least 1");
  CHECK(sentence([&] { data::pack({}, {.length = 4}); }) == "pack: there are no documents; add at least one");
  CHECK(sentence([&] {
          data::pack(some, {.length = 4, .labels = data::document_labels::classes});
        }).starts_with("packing_options: .labels is neither next_tokens nor same_tokens"));
  CHECK(sentence([&] {
          data::pack(some, {.length = std::int64_t{1} << 31});
        }).starts_with("packing_options: .length is 2147483648"));
  auto const said = [](integers const& positions, std::int64_t length) {
    return sentence([&] { data::check_positions(positions, length); });
  };
  CHECK(said({0, 1, 0, 0, 0, 1}, 3) == "");
  CHECK(said({0, 1, 2}, 3) == "");
  CHECK(said({}, 3) == "");
  CHECK(said({0, 0, 0, 0}, 3) ==
        "check_positions: there are 4 positions, which is not a multiple of the row length, 3; give complete rows");
  CHECK(said({0, 1, 2, 3, 0, 1}, 3) ==
        "check_positions: the position of token 0 of row 1 is 3; give 0 where a document begins, and elsewhere 1 more "
        "than the previous token's position");
  CHECK(said({0, 2, 3}, 3).starts_with("check_positions: the position of token 1 of row 0 is 2;"));
  CHECK(said({0, 1, 1}, 3).starts_with("check_positions: the position of token 2 of row 0 is 1;"));
  CHECK(said({-1, 0, 0}, 3).starts_with("check_positions: the position of token 0 of row 0 is -1;"));
  CHECK(said({0, -1, 0}, 3).starts_with("check_positions: the position of token 1 of row 0 is -1;"));
  CHECK(said({0}, 0) == "check_positions: the length is 0; give an integer of at least 1");
}

namespace {

/// A language model of one layer; `packed`: its second input is the positions in documents, else the lengths.
template <bool packed> struct small_lm {
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"},
                                             packed ? ct::port_spec{.name = "positions"}
                                                    : ct::port_spec{.name = "lengths", .each = ct::per::sequence}};
  constexpr ct::value operator()(ct::value tokens, ct::value limits) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 40, .width = 16});
    auto const table = ct::rotary_table(x, {.head_width = 8});
    auto const turned = [&](ct::value y) {
      return packed ? ct::rotary_embedding(y, table, limits) : ct::rotary_embedding(y, table);
    };
    auto const q = turned(ct::linear("query", x, 16)), k = turned(ct::linear("key", x, 16));
    auto const seen = ct::self_attention(q, k, ct::linear("value", x, 16), limits, {.heads = 2, .documents = packed});
    return ct::linear("head", ct::rms_norm("norm", x + seen), 40);
  }
};
template <bool packed, int rows>
using lm = ct::trainer<ct::task<small_lm<packed>{}, ct::causal_lm, ct::micro_batch{.sequences = rows, .tokens = 16}>>;

} // namespace

TEST_CASE("training on packed documents equals training on padded ones") {
  data::documents all;
  std::mt19937 random(5);
  for (int const length : {10, 6, 9, 7, 12, 4, 8, 5, 3}) {
    integers tokens;
    for (int i = 0; i < length; ++i) tokens.push_back(static_cast<std::int32_t>(random() % 40));
    all.add(tokens);
  }
  auto const packed = data::pack(all, {.length = 16});
  auto const padded = data::group_by_length(all, {.multiple = 16});
  REQUIRE(padded.size() == 1);
  REQUIRE(packed.inputs()[0].integers().size() == 4 * 16);
  REQUIRE(padded[0].padded.inputs()[0].integers().size() == 9 * 16);
  lm<true, 4> short_rows{{.learning_rate = 1e-2f}, {.seed = 1}};
  lm<false, 9> long_rows{{.learning_rate = 1e-2f}, {.seed = 1}};
  auto const& p = packed;
  auto const& q = padded[0].padded;
  for (int i = 0; i < 20; ++i) {
    auto const a = short_rows.step(short_rows.batch(p.inputs(), p.labels())).loss;
    auto const b = long_rows.step(long_rows.batch(q.inputs(), q.labels())).loss;
    CHECK(std::abs(a - b) < 1e-6);
  }
  CHECK(short_rows.evaluate(packed).loss < 3);
}
