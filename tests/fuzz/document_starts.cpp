#include "fuzz.hpp"

#include "constrain/data/packing.hpp"

#include <vector>

// The first byte is the length of a row; each further one is a document start, less 8.
void constrain::test::try_reader(std::span<std::byte const> bytes) {
  if (bytes.empty()) return;
  auto const length = std::to_integer<std::int32_t>(bytes[0]);
  std::vector<std::int32_t> starts;
  for (auto const each : bytes.subspan(1)) starts.push_back(std::to_integer<std::int32_t>(each) - 8);
  data::check_document_starts(starts, length);
  hold(length > 0 && starts.size() % static_cast<std::size_t>(length) == 0);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    auto const row = i - i % static_cast<std::size_t>(length);
    hold(starts[i] >= 0 && row + static_cast<std::size_t>(starts[i]) <= i);
    // All tokens from a document's first one on have the same start.
    hold(starts[row + static_cast<std::size_t>(starts[i])] == starts[i]);
  }
}
