#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "constrain/io/crc32c.hpp"
#include "constrain/io/failure.hpp"
#include "constrain/program/label.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// How a token is stored.
enum class token_width : std::uint8_t { byte = 1, uint16 = 2 };

/// A sequence of tokens, read-only. Copies and splits share the storage.
class corpus {
 public:
  /// One token per byte, vocabulary 256. Where `given[i]` is true, token i is given and no label: nothing is learned from
  /// predicting it; empty: all are labels. Throws `error` when there is no byte, or `given` has another length.
  static corpus from_bytes(std::string bytes, std::vector<bool> given = {}) {
    if (bytes.empty()) throw io::failure({"the corpus has no tokens; give it at least one byte"});
    if (!given.empty() && given.size() != bytes.size())
      throw io::failure({"a corpus of ", bytes.size(), " bytes says of ", given.size(),
                         " whether they are given; say it of each, or of none"});
    auto storage = std::make_shared<std::string const>(std::move(bytes));
    auto const all = std::as_bytes(std::span(*storage));
    corpus result(std::move(storage), all, token_width::byte, 256);
    if (!given.empty()) result.take_given(std::move(given));
    return result;
  }

  /// Tokens that lie in `view`, which `storage` keeps alive: bytes, or 16-bit numbers, the lower byte first, at an even
  /// address. Throws `error` unless there is one and they are whole.
  static corpus from_storage(std::shared_ptr<void const> storage, std::span<std::byte const> view, token_width width) {
    auto const size = static_cast<std::size_t>(width);
    if (view.empty() || view.size() % size != 0)
      throw io::failure({"a corpus of ", view.size(), " bytes has no whole number of tokens of ", size,
                         " bytes each; give it at least one and no part of one"});
    std::int32_t largest = 255;
    if (width == token_width::uint16) {
      largest = 0;
      for (std::size_t i = 0; i < view.size(); i += 2) largest = std::max(largest, wide_token(view.data() + i));
    }
    return corpus(std::move(storage), view, width, largest + 1);
  }

  /// Tokens.
  std::int64_t size() const { return static_cast<std::int64_t>(view.size()) / width_bytes(); }
  /// Every token is below it: 256 where bytes are tokens, one more than the largest otherwise.
  std::int32_t vocabulary() const { return below; }
  /// Where bytes are tokens.
  static constexpr std::int32_t byte_vocabulary = 256;

  /// Throws `error` unless 0 <= `index` < `size()`.
  std::int32_t token(std::int64_t index) const {
    std::int32_t value = 0;
    copy(index, {&value, 1});
    return value;
  }

  /// Fills `tokens` with those from `first` on. Throws `error`, with nothing written, when the corpus ends before.
  void copy(std::int64_t first, std::span<std::int32_t> tokens) const {
    check(first, tokens.size());
    std::byte const* from = view.data() + first * width_bytes();
    for (auto& token : tokens) {
      token = width == token_width::byte ? std::to_integer<std::int32_t>(*from) : wide_token(from);
      from += width_bytes();
    }
  }

  /// The same as labels: `ignored_label` for those that are given.
  void copy_labels(std::int64_t first, std::span<std::int32_t> labels) const {
    copy(first, labels);
    if (given == nullptr) return;
    for (std::size_t i = 0; i < labels.size(); ++i)
      if ((*given)[static_cast<std::size_t>(given_first + first) + i]) labels[i] = ignored_label;
  }

  /// The tokens as they are stored.
  std::span<std::byte const> bytes() const { return view; }

  /// Length in bytes (upper half) and CRC-32C (lower half) of the content: another corpus has, all but surely, another
  /// one.
  std::uint64_t fingerprint() const { return sum; }

  struct parts;
  /// Cuts off the tail: `validation` has the last floor(fraction x size) tokens; either part may be empty. Throws
  /// `error` unless 0 <= `validation_fraction` <= 1.
  parts split(double validation_fraction) const;

 private:
  std::shared_ptr<void const> storage;
  std::span<std::byte const> view;
  token_width width;
  std::int32_t below;
  std::uint64_t sum;
  std::shared_ptr<std::vector<bool> const> given{}; ///< Null: none is.
  std::int64_t given_first = 0;                     ///< Of this part of the storage.

  corpus(std::shared_ptr<void const> storage, std::span<std::byte const> view, token_width width, std::int32_t below)
      : storage(std::move(storage)), view(view), width(width), below(below),
        sum(std::uint64_t(view.size()) << 32 | io::crc32c{}.update(view).value()) {}

  void take_given(std::vector<bool> which) {
    std::string const marks(which.begin(), which.end());
    sum ^= io::crc32c{}.update(std::as_bytes(std::span(marks))).value(); // the checksum covers it too
    given = std::make_shared<std::vector<bool> const>(std::move(which));
  }

  std::int64_t width_bytes() const { return static_cast<std::int64_t>(width); }
  static std::int32_t wide_token(std::byte const* at) {
    return std::to_integer<std::int32_t>(at[0]) | std::to_integer<std::int32_t>(at[1]) << 8;
  }

  void check(std::int64_t first, std::size_t count) const {
    if (first < 0 || first > size() || static_cast<std::int64_t>(count) > size() - first)
      throw io::failure({"a corpus of ", size(), " tokens was asked for ", count, " from token ", first,
                         " on; stay within it"});
  }
};

struct corpus::parts {
  corpus train, validation;
};

inline corpus::parts corpus::split(double validation_fraction) const {
  if (!(validation_fraction >= 0 && validation_fraction <= 1))
    throw io::failure({"a validation fraction of ", std::to_string(validation_fraction),
                       " cannot be cut off a corpus; use one from 0 to 1"});
  auto const share = static_cast<std::int64_t>(validation_fraction * static_cast<double>(size()));
  auto const kept = size() - std::min(size(), share);
  auto const cut = static_cast<std::size_t>(kept * width_bytes());
  parts both{corpus(storage, view.first(cut), width, below), corpus(storage, view.subspan(cut), width, below)};
  both.train.given = both.validation.given = given;
  both.train.given_first = given_first, both.validation.given_first = given_first + kept;
  return both;
}

} // namespace constrain::data
