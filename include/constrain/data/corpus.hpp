#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "constrain/io/crc32c.hpp"
#include "constrain/io/failure.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// A sequence of tokens, read-only. Copies and splits share the storage.
class corpus {
 public:
  /// One token per byte, vocabulary 256. Throws `error` when there is none.
  static corpus from_bytes(std::string bytes) {
    if (bytes.empty()) throw io::failure({"the corpus has no tokens; give it at least one byte"});
    auto storage = std::make_shared<std::string const>(std::move(bytes));
    std::string_view const all = *storage;
    return corpus(std::move(storage), all);
  }

  /// Tokens.
  std::int64_t size() const { return static_cast<std::int64_t>(view.size()); }
  /// Every token is below it.
  static constexpr std::int32_t vocabulary() { return 256; }

  /// Throws `error` unless 0 <= `index` < `size()`.
  std::int32_t token(std::int64_t index) const {
    check(index, 1);
    return static_cast<unsigned char>(view[static_cast<std::size_t>(index)]);
  }

  /// Fills `tokens` with those from `first` on. Throws `error`, with nothing written, when the corpus ends before.
  void copy(std::int64_t first, std::span<std::int32_t> tokens) const {
    check(first, tokens.size());
    auto const from = view.substr(static_cast<std::size_t>(first), tokens.size());
    std::transform(from.begin(), from.end(), tokens.begin(), [](char c) { return static_cast<unsigned char>(c); });
  }

  /// The tokens as they are stored: one byte each.
  std::span<std::uint8_t const> bytes() const {
    return {reinterpret_cast<std::uint8_t const*>(view.data()), view.size()};
  }

  /// Length (upper half) and CRC-32C (lower half) of the content: another corpus has, all but surely, another one.
  std::uint64_t fingerprint() const { return sum; }

  struct parts;
  /// Cuts off the tail: `validation` has the last floor(fraction x size) tokens; either part may be empty. Throws
  /// `error` unless 0 <= `validation_fraction` <= 1.
  parts split(double validation_fraction) const;

 private:
  std::shared_ptr<std::string const> storage;
  std::string_view view;
  std::uint64_t sum;

  corpus(std::shared_ptr<std::string const> storage, std::string_view view)
      : storage(std::move(storage)), view(view),
        sum(std::uint64_t(view.size()) << 32 | io::crc32c{}.update(std::as_bytes(std::span(view))).value()) {}

  void check(std::int64_t first, std::size_t count) const {
    if (first < 0 || first > size() || count > view.size() - static_cast<std::size_t>(first))
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
  auto const share = static_cast<std::size_t>(validation_fraction * static_cast<double>(view.size()));
  auto const tail = std::min(view.size(), share);
  auto const cut = view.size() - tail;
  return {corpus(storage, view.substr(0, cut)), corpus(storage, view.substr(cut))};
}

} // namespace constrain::data
