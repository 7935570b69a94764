#include "fuzz.hpp"

#include "constrain/data/packing.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace {

/// A byte as a position: the highest two are the extremes, and any other is the position plus 8.
std::int32_t position_of(std::byte byte) {
  auto const value = std::to_integer<std::int32_t>(byte);
  if (value == 255) return std::numeric_limits<std::int32_t>::max();
  if (value == 254) return std::numeric_limits<std::int32_t>::min();
  return value - 8;
}

} // namespace

// The first byte is the length of a row; each further one is a position.
void constrain::test::try_reader(std::span<std::byte const> bytes) {
  if (bytes.empty()) return;
  auto const length = std::to_integer<std::int32_t>(bytes[0]);
  std::vector<std::int32_t> positions;
  for (auto const each : bytes.subspan(1)) positions.push_back(position_of(each));
  data::check_positions(positions, length);
  hold(length > 0 && positions.size() % static_cast<std::size_t>(length) == 0);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    auto const row = i - i % static_cast<std::size_t>(length);
    auto const back = static_cast<std::size_t>(positions[i]);
    hold(positions[i] >= 0 && row + back <= i);
    // The first token of the document, and all up to this one.
    for (std::size_t k = 0; k <= back; ++k) hold(positions[i - back + k] == static_cast<std::int32_t>(k));
  }
}
