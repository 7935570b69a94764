#include "sentence.hpp"

#include <constrain/run/host_arena.hpp>
#include <doctest/doctest.h>

#include <limits>
#include <utility>
#include <vector>

// Whatever offset and count it is given, the host reaches nothing beside the arena.

namespace ct = constrain;
using ct::test::sentence;

TEST_CASE("an arena is read, written, filled and edited within it alone") {
  ct::host_arena arena(ct::bytes(100));
  arena.fill(0, 100, 7);
  std::vector<unsigned char> bytes(100, 1);
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  std::pair<std::int64_t, std::int64_t> const outside[] = {{0, 101},  {100, 1},     {101, 0},          {-1, 1},
                                                           {-1, 0},   {0, -1},      {50, 51},          {most, 1},
                                                           {1, most}, {most, most}, {-most - 1, most}, {50, -51}};
  for (auto const& place : outside) {
    auto const offset = place.first, count = place.second;
    CAPTURE(offset);
    CAPTURE(count);
    auto const said = "the arena of 100 bytes was accessed out of bounds: " + std::to_string(count) +
                      (count == 1 ? " byte" : " bytes") + " from byte " + std::to_string(offset) +
                      "; stay within the arena";
    CHECK(sentence([&] { arena.write(offset, bytes.data(), count); }) == said);
    CHECK(sentence([&] { arena.read(offset, bytes.data(), count); }) == said);
    CHECK(sentence([&] { arena.fill(offset, count, 9); }) == said);
    CHECK(sentence([&] { arena.edit(offset, count, [](std::byte*) { FAIL("called"); }); }) == said);
    CHECK(sentence([&] { arena.produce(offset, count, [](std::byte*) { FAIL("called"); }); }) == said);
  }
  CHECK(bytes == std::vector<unsigned char>(100, 1));
  arena.read(0, bytes.data(), 100);
  CHECK(bytes == std::vector<unsigned char>(100, 7));
  for (auto const& place : {std::pair{0, 100}, {0, 0}, {100, 0}, {99, 1}})
    CHECK(sentence([&] { arena.write(place.first, bytes.data(), place.second); }) == "");
}
