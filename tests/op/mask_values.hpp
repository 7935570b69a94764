#pragma once

#include <cstdint>
#include <vector>

namespace constrain::test {

/// Lengths of padded sequences: all tokens, none, one, half of them, and all but one, in turn.
inline std::vector<std::int32_t> some_lengths(std::int64_t sequences, std::int64_t tokens) {
  std::int64_t const some[] = {tokens, 0, 1, tokens / 2 + 1, tokens - 1};
  std::vector<std::int32_t> lengths;
  for (std::int64_t i = 0; i < sequences; ++i) lengths.push_back(static_cast<std::int32_t>(some[i % 5]));
  return lengths;
}
/// Positions of tokens in documents of very different lengths: one of one token, one of two thirds of the tokens, and
/// so on. They differ from sequence to sequence.
inline std::vector<std::int32_t> some_positions(std::int64_t sequences, std::int64_t tokens) {
  std::vector<std::int32_t> positions;
  for (std::int64_t sequence = 0; sequence < sequences; ++sequence) {
    std::int64_t const lengths[] = {1, 2 * tokens / 3 + 1, 3, tokens / 10 + 1, 1, 17};
    for (std::int64_t t = 0, document = sequence; t < tokens; ++document)
      for (std::int64_t i = 0; i < lengths[document % 6] && t < tokens; ++i, ++t)
        positions.push_back(static_cast<std::int32_t>(i));
  }
  return positions;
}

} // namespace constrain::test
