#pragma once

#include "constrain/base/error.hpp"
#include "constrain/base/function_ref.hpp"
#include "constrain/data/token_source.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// Bytes per stored token.
enum class token_width : std::uint8_t { byte = 1, uint16 = 2, uint32 = 4 };

/// A read-only sequence of tokens, with an optional mask of prompt tokens (used as input, but not as labels). Copies,
/// and the parts that `split` returns, share the storage. Several threads may read a corpus, its copies and its parts
/// at the same time.
class corpus {
public:
  /// One token per byte, vocabulary size 256. If `prompt[i]` is true, token i is part of a prompt and has no loss; if
  /// `prompt` is empty, all tokens are labels. `text_length`: see the function of this name. Throws `error` if `bytes`
  /// is empty, if `prompt` is neither empty nor as long as `bytes`, or if the size of `bytes` is not a multiple of
  /// `text_length`, which must be at least 1.
  static corpus from_bytes(std::string bytes, std::vector<bool> prompt = {}, std::int64_t text_length = 1);

  /// Tokens in memory (`view`): bytes, or little-endian integers of 16 or 32 bits. `storage` keeps the memory alive;
  /// null: the caller does. No token is part of a prompt. The memory must not change while the corpus, a copy or a part
  /// exists. Throws `error` if there is no token, the last token is incomplete, a token is above `largest_token` or the
  /// width is not 1, 2 or 4.
  static corpus from_storage(std::shared_ptr<void const> storage, std::span<std::byte const> view, token_width width);

  /// Little-endian tokens of a file, of 16 or 32 bits, from byte `begin` to the end. This call scans the file once;
  /// later, tokens are read when they are used. No token is part of a prompt. `file` must not be null, and must not be
  /// given to another corpus, because this call sets `file->begin()`. Throws `error` if `begin` is negative, there is
  /// no token, the last token is incomplete, a token is above `largest_token`, the width is not 2 or 4, or the file
  /// cannot be read.
  static corpus from_file(std::shared_ptr<token_file> file, std::int64_t begin,
                          token_width width = token_width::uint16);

  /// The number of tokens.
  std::int64_t size() const { return length_; }
  /// The length of each text, if it was given as `text_length` of `from_bytes` or as `.length` of `json_lines`; else 1.
  /// `size()` is a multiple of this length. `split` cuts no text, so a part has the same length of texts as the corpus
  /// that was split.
  std::int64_t text_length() const { return text_length_; }
  /// The vocabulary size: 256 for byte tokens, else the largest token + 1. A part has the same vocabulary size as the
  /// corpus that was split.
  std::int32_t vocabulary() const { return vocabulary_; }
  /// The vocabulary size of byte tokens.
  static constexpr std::int32_t byte_vocabulary = 256;
  /// The largest token that a corpus may have, so that the vocabulary size fits into an `std::int32_t`.
  static constexpr std::uint32_t largest_token = 0x7ffffffe;

  /// Token `index`. Throws `error` unless 0 <= `index` < `size()`. Also throws as `copy` does.
  std::int32_t token(std::int64_t index) const;

  /// Fills `tokens` with the tokens from `first` on. Throws `error` without writing if the corpus has too few tokens or
  /// `first` is negative. Also throws `error` if the corpus's file cannot be read, or if the corpus detects that its
  /// file or memory has changed since the corpus was made.
  void copy(std::int64_t first, std::span<std::int32_t> tokens) const;

  /// Fills `labels` with the tokens from `first` on, but with `ignored_label` for prompt tokens. Throws as `copy` does.
  void copy_labels(std::int64_t first, std::span<std::int32_t> labels) const;

  /// The number of labels (tokens outside of prompts) among `count` tokens from `first` on. Throws `error` if the
  /// corpus has too few tokens, or `first` or `count` is negative.
  std::int64_t labels(std::int64_t first, std::int64_t count) const;

  /// A hash of the content. Upper 32 bits: the number of tokens, modulo 2^32. Lower 32 bits: CRC-32C of the bytes of
  /// the tokens and, if the corpus has a prompt mask, of the mask (one byte per token).
  std::uint64_t fingerprint() const { return fingerprint_; }

  struct parts;
  /// Splits off the end: `validation` has the last floor(validation_fraction x number of texts) texts of
  /// `text_length()` tokens. Either part may be empty. Reads all tokens. Throws `error` unless 0 <=
  /// `validation_fraction` <= 1. Also throws `error` if the corpus's file cannot be read, or if the corpus detects that
  /// its file has changed since the corpus was made.
  parts split(double validation_fraction) const;
  /// Splits at random. The corpus is cut into blocks of `block` tokens, rounded up to a multiple of `text_length()`
  /// (the last block may be shorter); `validation` has floor(validation_fraction x number of blocks) randomly drawn
  /// blocks. Both parts keep the order of the corpus; either may be empty. The same seed gives the same parts on every
  /// machine. Make a block several times as long as a sequence of the task, because a sequence that crosses the end of
  /// a block continues with the text of another block. Reads all tokens. Throws `error` unless 0 <=
  /// `validation_fraction` <= 1 and `block` >= 1. Also throws `error` if the corpus's file cannot be read, or if the
  /// corpus detects that its file has changed since the corpus was made.
  parts split(double validation_fraction, std::uint64_t seed, std::int64_t block = 1024) const;

private:
  /// A range of tokens that are contiguous in the storage, up to the next run or the end of the corpus.
  struct run {
    std::int64_t begin; ///< The first token's index in the corpus.
    std::int64_t first; ///< The first token's index in the storage.
  };

  token_source source_;
  token_width width_;
  std::int32_t vocabulary_;
  std::int64_t length_, text_length_ = 1;
  std::shared_ptr<std::vector<run> const> runs_ = std::make_shared<std::vector<run> const>(1, run{0, 0});
  std::shared_ptr<std::vector<bool> const> prompt_{}; ///< Mask over the storage; null: no prompt tokens.
  std::uint64_t fingerprint_ = 0;

  corpus(token_source source, token_width width, std::int32_t vocabulary)
      : source_(std::move(source)), width_(width), vocabulary_(vocabulary), length_(source_.size() / width_bytes()) {}

  std::int64_t width_bytes() const { return static_cast<std::int64_t>(width_); }
  bool is_prompt(std::int64_t in_storage) const { return (*prompt_)[static_cast<std::size_t>(in_storage)]; }

  /// Calls `visit(token)` for each token in `bytes`, which must end with a complete token. A token may be above
  /// `largest_token`.
  template <class visitor>
  static void for_tokens(std::span<std::byte const> bytes, token_width width, visitor const& visit) {
    auto const shifted_byte = [](std::byte b, int shift) { return std::to_integer<std::uint32_t>(b) << shift; };
    auto const* const end = bytes.data() + bytes.size();
    if (width == token_width::byte)
      for (auto const* p = bytes.data(); p != end; ++p) visit(shifted_byte(*p, 0));
    else if (width == token_width::uint16)
      for (auto const* p = bytes.data(); p != end; p += 2) visit(shifted_byte(p[0], 0) | shifted_byte(p[1], 8));
    else
      for (auto const* p = bytes.data(); p != end; p += 4)
        visit(shifted_byte(p[0], 0) | shifted_byte(p[1], 8) | shifted_byte(p[2], 16) | shifted_byte(p[3], 24));
  }

  /// The largest of the tokens; 0 if there is none. `tokens` must end with a complete token.
  static std::uint32_t largest(std::span<std::byte const> tokens, token_width width);

  /// The vocabulary size of tokens whose largest is `largest`. Throws `error` if `largest` is above `largest_token`;
  /// the message begins with `source`.
  static std::int32_t vocabulary_for(std::uint32_t largest, std::string const& source);

  /// Splits the `count` tokens from `first` on into ranges that are contiguous in the storage, and calls `visit(begin,
  /// length)` for each range, where `begin` is the storage index of the range's first token. Throws `error` if the
  /// corpus has too few tokens, or `first` or `count` is negative.
  void for_runs(std::int64_t first, std::int64_t count, function_ref<void(std::int64_t, std::int64_t)> visit) const;

  /// Calls `visit(bytes)` for consecutive parts of the bytes of the `count` tokens from `first` on; each part ends with
  /// a complete token. Throws as `for_runs` and `token_source::visit` do.
  void for_bytes(std::int64_t first, std::int64_t count, function_ref<void(std::span<std::byte const>)> visit) const;

  static std::uint64_t fingerprint_of(std::int64_t tokens, std::uint32_t check) {
    return static_cast<std::uint64_t>(tokens) << 32 | check;
  }
  /// Sets `fingerprint_`, computed from all tokens and the prompt mask. Throws as `for_bytes` does.
  void set_fingerprint();

  /// Builds a part of a corpus from ranges of its tokens.
  class selection {
  public:
    /// `source` must outlive this object.
    explicit selection(corpus const& source) : corpus_(source) {}

    /// Appends the `count` tokens of the corpus from `first` on. Throws as `for_runs` does.
    void add(std::int64_t first, std::int64_t count);

    /// The corpus of the tokens added; it may be empty. Throws as `for_bytes` does.
    corpus part() &&;

  private:
    corpus const& corpus_;
    std::vector<run> runs_;
    std::int64_t length_ = 0;
  };

  /// The size of the validation part of `total` texts or blocks: floor(`fraction` x `total`). Throws `error` unless
  /// 0 <= `fraction` <= 1.
  static std::int64_t validation_size(double fraction, std::int64_t total);
};

/// The result of `split`.
struct corpus::parts {
  corpus train, validation; // disjoint; together, the corpus that was split
};

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/corpus.ipp"
#endif
