#include "fuzz.hpp"

#include "constrain/data/packing.hpp"

#include <vector>

// The first byte is the length of a row; each further one is a position, plus 8.
void constrain::test::try_reader(std::span<std::byte const> bytes) {
  if (bytes.empty()) return;
  auto const length = std::to_integer<std::int32_t>(bytes[0]);
  std::vector<std::int32_t> positions;
  for (auto const each : bytes.subspan(1)) positions.push_back(std::to_integer<std::int32_t>(each) - 8);
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
