#include <constrain/train/parameter_table.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace ct = constrain;

namespace {

/// The elements of one iteration's tensor that a rank of the holders stores, in the order in which it stores them.
std::vector<std::int64_t> elements_of(ct::tensor_info const& info, int rank) {
  std::vector<std::int64_t> elements;
  info.for_each_run(rank, [&](ct::stored_run const& run) {
    CHECK(run.stored_begin == static_cast<std::int64_t>(elements.size()));
    CHECK(run.length > 0);
    for (std::int64_t i = 0; i < run.length; ++i) elements.push_back(run.begin + i);
  });
  return elements;
}

/// Whether the ranks of all holders together store every element `copies` times.
bool covers(ct::tensor_info const& info, int ranks, int copies) {
  std::vector<int> stored(static_cast<std::size_t>(info.shape.elements()));
  for (int rank = 0; rank < ranks; ++rank)
    for (auto i : elements_of(info, rank)) ++stored[static_cast<std::size_t>(i)];
  return std::all_of(stored.begin(), stored.end(), [&](int n) { return n == copies; });
}

using elements = std::vector<std::int64_t>;

} // namespace

TEST_CASE("tensor_info: what every rank holds, and shards") {
  ct::tensor_info info;
  info.shape = ct::shape(2, 3);
  CHECK(elements_of(info, 0) == elements{0, 1, 2, 3, 4, 5});
  CHECK(elements_of(info, 7) == elements{0, 1, 2, 3, 4, 5});
  info.shards = 2, info.chunk = 1;
  CHECK(elements_of(info, 1) == elements{3, 4, 5});
  CHECK(info.holders() == 2);
}

TEST_CASE("tensor_info: ranges of one dimension, part by part") {
  ct::tensor_info info;
  info.shape = ct::shape(4, 2), info.tensor_ranks = 2;
  info.divided = 0, info.parts = {2};
  CHECK(elements_of(info, 1) == elements{4, 5, 6, 7});
  info.divided = 1, info.parts = {1};
  CHECK(elements_of(info, 1) == elements{1, 3, 5, 7});
  info.shape = ct::shape(6), info.divided = 0, info.parts = {2, 1}; // two parts, of 4 and 2
  CHECK(elements_of(info, 0) == elements{0, 1, 4});
  CHECK(elements_of(info, 1) == elements{2, 3, 5});
  CHECK(info.holders() == 2);
}

TEST_CASE("tensor_info: shards of ranges") {
  ct::tensor_info info;
  info.shape = ct::shape(3, 8, 5), info.tensor_ranks = 2, info.divided = 1, info.parts = {3, 1};
  for (std::int64_t shards : {1, 2, 3, 5}) {
    info.shards = shards;
    for (std::int64_t chunk : {1, 4, 7}) {
      info.chunk = chunk;
      CAPTURE(shards);
      CAPTURE(chunk);
      CHECK(covers(info, static_cast<int>(info.holders()), 1));
      CHECK(info.holders() == 2 * shards);
    }
  }
  // For a parameter that tensor parallelism does not divide, each rank of a tensor group has all of it, or the same
  // shard.
  info.divided = -1, info.shards = 3, info.chunk = 4;
  CHECK(covers(info, 6, 2));
  CHECK(elements_of(info, 2) == elements_of(info, 3));
  CHECK(info.holders() == 3);
}
