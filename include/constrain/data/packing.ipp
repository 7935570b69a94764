#pragma once

#include "constrain/data/packing.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"
#include "constrain/base/heap_sort.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/data/memory_check.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::data::detail {

/// A part of a document that fits into a row.
struct document_chunk {
  std::int64_t document = 0, first = 0, length = 0; // `first`: the first token's index in the document
};

/// The chunks of all documents, longest first. Chunks of equal length keep their order. `maximum_length`: the maximum
/// number of tokens in a chunk.
[[gnu::cold]] CONSTRAIN_INLINE std::vector<document_chunk> chunks_of(documents const& source,
                                                                     std::int64_t maximum_length) {
  std::vector<document_chunk> chunks;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    auto const length = static_cast<std::int64_t>(source.tokens(i).size());
    for (std::int64_t first = 0; first < length; first += maximum_length)
      chunks.push_back({i, first, std::min(maximum_length, length - first)});
  }
  constrain::detail::heap_sort(chunks, [](document_chunk const& a, document_chunk const& b) {
    if (a.length != b.length) return a.length > b.length;
    return a.document < b.document || (a.document == b.document && a.first < b.first);
  });
  return chunks;
}

/// The rows that are not full, grouped by `capacity`: the number of tokens that still fit into the row.
class open_rows {
public:
  /// Adds the row with index `row`.
  void add(std::int64_t row, std::int64_t capacity) { rows_by_capacity_[capacity].push_back(row); }
  /// Removes the fullest row into which `needed` tokens fit, and returns its index; -1: none. Of several such rows,
  /// removes the row that was added last.
  std::int64_t take(std::int64_t needed) {
    auto const best = rows_by_capacity_.lower_bound(needed);
    if (best == rows_by_capacity_.end()) return -1;
    auto const row = best->second.back();
    best->second.pop_back();
    if (best->second.empty()) rows_by_capacity_.erase(best);
    return row;
  }

private:
  std::map<std::int64_t, std::vector<std::int64_t>> rows_by_capacity_{}; // an array would need `.length` entries
};

/// `rows` x `length`; on overflow, the largest multiple of `length` below 2^63. `length` must be at least 1.
CONSTRAIN_INLINE std::int64_t saturating_product(std::size_t rows, std::size_t length) {
  constexpr std::int64_t maximum = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min(rows, static_cast<std::size_t>(maximum) / length) * length);
}

/// The arrays of packed documents, each of shape [rows, length].
struct packed_arrays {
  std::vector<std::int32_t> tokens{}, positions{}, labels{};
};

/// Writes the tokens, positions and labels of a chunk into its row, from index `offset` of the row on. `row`: the array
/// index of the row's first token. A token without a label keeps the label in `arrays`.
CONSTRAIN_INLINE void write_chunk(documents const& source, document_chunk const& chunk, document_labels labels,
                                  std::size_t row, std::size_t offset, packed_arrays& arrays) {
  auto const tokens = source.tokens(chunk.document);
  for (std::size_t i = 0; i < static_cast<std::size_t>(chunk.length); ++i) {
    auto const index = static_cast<std::size_t>(chunk.first) + i;
    arrays.tokens[row + offset + i] = tokens[index];
    arrays.positions[row + offset + i] = static_cast<std::int32_t>(i);
    auto const label = index + (labels == document_labels::same_tokens ? 0 : 1);
    if (label < tokens.size()) arrays.labels[row + offset + i] = source.token_label(chunk.document, label);
  }
}

} // namespace constrain::data::detail

namespace constrain::inline CONSTRAIN_VARIANT::data {

[[gnu::cold]] CONSTRAIN_INLINE examples pack(documents const& source, packing_options const& options) {
  check_count("packing_options", ".length", options.length, 1);
  if (options.length > std::numeric_limits<std::int32_t>::max())
    constrain::detail::refuse_number("packing_options", ".length", concat({options.length}), "at most 2147483647");
  if (options.labels != document_labels::next_tokens && options.labels != document_labels::same_tokens)
    throw error("packing_options: .labels is neither next_tokens nor same_tokens; give one of these, or use "
                "group_by_length for classes, because a row holds several documents");
  if (source.size() == 0) throw error("pack: there are no documents; add at least one");
  auto const chunks = detail::chunks_of(source, options.length);
  std::vector<std::int64_t> row_of, offsets; // by chunk: its row, and the index of its first token in the row
  std::vector<std::int64_t> row_lengths;     // by row: number of tokens
  detail::open_rows open;
  for (auto const& chunk : chunks) {
    auto const row = open.take(chunk.length);
    row_of.push_back(row < 0 ? static_cast<std::int64_t>(row_lengths.size()) : row);
    if (row < 0) row_lengths.push_back(0);
    auto& tokens = row_lengths[static_cast<std::size_t>(row_of.back())];
    offsets.push_back(tokens);
    tokens += chunk.length;
    if (tokens < options.length) open.add(row_of.back(), options.length - tokens);
  }
  auto const rows = row_lengths.size(), length = static_cast<std::size_t>(options.length);
  detail::check_memory("the packed data", detail::saturating_product(row_lengths.size(), length),
                       3 * sizeof(std::int32_t), "token", "use less data or a smaller .length");
  auto const arrays = std::make_shared<detail::packed_arrays>();
  arrays->tokens.resize(rows * length), arrays->positions.resize(rows * length),
      arrays->labels.resize(rows * length, ignored_label);
  for (std::size_t i = 0; i < chunks.size(); ++i)
    detail::write_chunk(source, chunks[i], options.labels, static_cast<std::size_t>(row_of[i]) * length,
                        static_cast<std::size_t>(offsets[i]), *arrays);
  return examples::from_storage(arrays, {arrays->tokens, arrays->positions}, arrays->labels);
}

[[gnu::cold]] CONSTRAIN_INLINE void check_positions(std::span<std::int32_t const> positions, std::int64_t length) {
  check_count("check_positions", "the length", length, 1);
  auto const size = static_cast<std::int64_t>(positions.size());
  if (size % length != 0)
    throw error({"check_positions: there are ", counted(positions.size(), "position"),
                 ", which is not a multiple of the row length, ", length, "; give complete rows"});
  for (std::int64_t i = 0; i < size; ++i) {
    auto const position = positions[static_cast<std::size_t>(i)];
    if (position == 0 || (i % length > 0 && position > 0 && position - 1 == positions[static_cast<std::size_t>(i - 1)]))
      continue;
    throw error({"check_positions: the position of token ", i % length, " of row ", i / length, " is ", position,
                 "; give 0 where a document begins, and elsewhere 1 more than the previous token's position"});
  }
}

} // namespace constrain::data
