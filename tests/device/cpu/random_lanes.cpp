#include "constrain/device/cpu/random_lanes.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>

namespace ct = constrain;

TEST_CASE("random_lanes has the words of single draws, also where the lower half of the index overflows") {
  ct::random_stream const stream{
      .seed = 0x123456789ABCDEFu, .step = 7, .random_key = 0x800003, .iteration = 0x4567890123u};
  for (std::int64_t const first : {0l, 1l, 1000l, 5l << 32, (6l << 32) - 3}) {
    ct::random_lanes const lanes(stream, first);
    for (std::int64_t lane = 0; lane < ct::random_lanes::draws; ++lane) {
      auto const draw = stream.draw((first + lane) >> 32, first + lane);
      for (std::size_t w = 0; w < 4; ++w) CHECK(lanes.word[4 * static_cast<std::size_t>(lane) + w] == draw.word[w]);
    }
  }
}
