#include <constrain/device/cuda/tiles.hpp>
#include <doctest/doctest.h>

#include <set>
#include <vector>

using namespace constrain;

namespace {

static_assert(blocks_for(1, 256) == 1 && blocks_for(256, 256) == 1 && blocks_for(257, 256) == 2);
static_assert(blocks_for(std::int64_t{1} << 40, 256) == 8192);
static_assert(row_parts(1) == 1 && row_parts(63) == 1 && row_parts(64) == 1 && row_parts(129) == 2 &&
              row_parts(1 << 20) == 256);

constexpr matrix_batch stored{5, false, 3, 10, 100};
static_assert(stored.begin(0) == 0 && stored.begin(2) == 20 && stored.begin(3) == 100 && stored.begin(7) == 210);
static_assert(stored.at(2, 3) == 13);
constexpr matrix_batch shared{5, false, 3, 10, 100, 4}; // each matrix is used four times
static_assert(shared.begin(3) == 0 && shared.begin(4) == 10 && shared.begin(11) == 20 && shared.begin(12) == 100);
static_assert(matrix_batch{5, true}.at(2, 3) == 17);

} // namespace

TEST_CASE("parts cover a range once, in order") {
  for (std::int64_t count : {0, 1, 2, 15, 16, 17, 127, 128, 129, 1000})
    for (std::int64_t parts : {1, 2, 16, 128}) {
      CHECK(part_begin(count, parts, 0) == 0);
      CHECK(part_begin(count, parts, parts) == count);
      for (std::int64_t i = 0; i < parts; ++i) CHECK(part_begin(count, parts, i) <= part_begin(count, parts, i + 1));
    }
}

TEST_CASE("threads of a grid meet every element once") {
  for (std::int64_t count : {1, 255, 256, 257, 100'000}) {
    std::vector<int> met(static_cast<std::size_t>(count));
    auto const stride = static_cast<std::int64_t>(blocks_for(count, 256)) * 256;
    for (std::int64_t thread = 0; thread < stride; ++thread)
      for (auto i = thread; i < count; i += stride) ++met[static_cast<std::size_t>(i)];
    for (int times : met) CHECK_EQ(times, 1);
  }
}

TEST_CASE("the heads of qkv lie apart and fill it") {
  constexpr std::int64_t sequences = 3, tokens = 7, heads = 5, head_width = 3, width = heads * head_width;
  std::set<std::int64_t> places;
  for (std::int64_t part = 0; part < 3; ++part)
    for (std::int64_t batch = 0; batch < sequences * heads; ++batch) {
      matrix_batch const m{3 * width, false, heads, head_width, tokens * 3 * width};
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t i = 0; i < head_width; ++i) {
          auto const place = part * width + m.begin(batch) + m.at(t, i);
          CHECK(place < sequences * tokens * 3 * width);
          CHECK(places.insert(place).second);
          CHECK(matrix_batch{m.leading, true}.at(i, t) == m.at(t, i));
        }
    }
  CHECK(places.size() == sequences * tokens * 3 * width);
}
