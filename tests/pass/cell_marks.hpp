#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

/// The marks of the simulation (simulate.hpp), cell by cell. Programs of several ranks write a megabyte of scratch
/// memory in every exchange and never read it. So a call that fills whole blocks of cells stores one entry for each
/// block; the cells of a block get marks of their own when one of them is read, or when a part of them is written.
namespace constrain::test::detail {

inline constexpr std::int64_t cell = 2;          // bytes that are watched together
inline constexpr std::int64_t block_cells = 256; // cells of a block: few entries for scratch, little work to spell out

constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  auto x = a * 0x9E3779B97F4A7C15ull + b;
  x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9ull;
  return x ^ x >> 32;
}

/// Calls f(block, begin, end) for the cells [begin, end) of each block that [first, first + count) meets, in order.
template <class function> void for_each_block(std::int64_t first, std::int64_t count, function const& f) {
  for (auto at = first; at < first + count;) {
    auto const block = at / block_cells;
    auto const end = std::min((block + 1) * block_cells, first + count);
    f(block, at, end);
    at = end;
  }
}

/// How each cell was computed.
class origins {
public:
  explicit origins(std::int64_t cells)
      : blocks_(static_cast<std::size_t>(cells / block_cells + 1)),
        marks_(std::make_unique_for_overwrite<std::uint64_t[]>(blocks_.size() * block_cells)) {}

  /// The marks of `count` cells, to read them or to change each.
  std::uint64_t* spelled_out(std::int64_t first, std::int64_t count) {
    for_each_block(first, count, [&](std::int64_t block, std::int64_t, std::int64_t) { spell_out(block); });
    return marks_.get() + first;
  }

  /// The marks of `count` cells, all of which the caller writes.
  std::uint64_t* overwritten(std::int64_t first, std::int64_t count) {
    for_each_block(first, count, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
      if (end - begin == block_cells) blocks_[static_cast<std::size_t>(block)].now = stored;
      else spell_out(block);
    });
    return marks_.get() + first;
  }

  /// Cell k of `count` gets mix(base, index + k).
  void fill(std::int64_t first, std::int64_t count, std::uint64_t base, std::uint64_t index) {
    for_each_block(first, count, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
      auto const from = index + static_cast<std::uint64_t>(begin - first);
      if (end - begin == block_cells) {
        blocks_[static_cast<std::size_t>(block)] = {filled, base, from};
        return;
      }
      spell_out(block);
      for (auto k = begin; k < end; ++k) marks_[k] = mix(base, from + static_cast<std::uint64_t>(k - begin));
    });
  }

private:
  enum state { unwritten, filled, stored };
  struct entry {
    state now = unwritten;
    std::uint64_t base = 0, index = 0; // of a filled block
  };

  void spell_out(std::int64_t block) {
    auto& e = blocks_[static_cast<std::size_t>(block)];
    if (e.now == stored) return;
    auto* const marks = marks_.get() + block * block_cells;
    for (std::int64_t k = 0; k < block_cells; ++k)
      marks[k] = e.now == unwritten ? 0 : mix(e.base, e.index + static_cast<std::uint64_t>(k));
    e.now = stored;
  }

  std::vector<entry> blocks_;
  std::unique_ptr<std::uint64_t[]> marks_; // of the cells of stored blocks
};

/// Which instance each cell holds; -1: none.
class holders {
public:
  explicit holders(std::int64_t cells)
      : blocks_(static_cast<std::size_t>(cells / block_cells + 1), -1),
        tags_(std::make_unique_for_overwrite<int[]>(blocks_.size() * block_cells)) {}

  void set(std::int64_t first, std::int64_t count, int tag) {
    for_each_block(first, count, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
      auto& all = blocks_[static_cast<std::size_t>(block)];
      if (all == tag) return;
      if (end - begin == block_cells) return void(all = tag);
      spell_out(block);
      std::fill(tags_.get() + begin, tags_.get() + end, tag);
    });
  }

  /// Whether all of `count` cells hold `tag`. With `from_host`, cells that hold nothing get it: the host wrote them
  /// before the run.
  bool expect(std::int64_t first, std::int64_t count, int tag, bool from_host) {
    bool as_expected = true;
    for_each_block(first, count, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
      int const all = blocks_[static_cast<std::size_t>(block)];
      if (!as_expected || all == tag) return;
      if (all != mixed) {
        as_expected = from_host && all == -1;
        if (as_expected) set(begin, end - begin, tag);
        return;
      }
      for (auto k = begin; k < end && as_expected; ++k)
        if (tags_[k] != tag) {
          as_expected = from_host && tags_[k] == -1;
          if (as_expected) tags_[k] = tag;
        }
    });
    return as_expected;
  }

private:
  static constexpr int mixed = -2;

  void spell_out(std::int64_t block) {
    auto& all = blocks_[static_cast<std::size_t>(block)];
    if (all == mixed) return;
    std::fill_n(tags_.get() + block * block_cells, block_cells, all);
    all = mixed;
  }

  std::vector<int> blocks_;     // what all cells of a block hold, or `mixed`
  std::unique_ptr<int[]> tags_; // of the cells of mixed blocks
};

/// The cells of an operand, in the order of its elements: rows of consecutive cells.
struct cell_rows {
  std::int64_t begin = 0;           // bytes before the first row
  std::int64_t stride = 0;          // bytes from one row to the next
  std::int64_t rows = 0, width = 0; // width: cells of a row

  std::int64_t size() const { return rows * width; }
  std::int64_t end() const { return (begin + (rows - 1) * stride) / cell + width; }

  /// Calls f(cell, count, k) for the runs of consecutive cells of [from, from + count); k counts the cells before a run
  /// from `from` on.
  template <class function> void for_each_run(std::int64_t from, std::int64_t count, function const& f) const {
    for (std::int64_t k = 0; k < count;) {
      auto const row = (from + k) / width, within = (from + k) % width;
      auto const length = std::min(width - within, count - k);
      f((begin + row * stride) / cell + within, length, k);
      k += length;
    }
  }
};

} // namespace constrain::test::detail
