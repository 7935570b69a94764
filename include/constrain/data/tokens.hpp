#pragma once

#include "constrain/data/corpus.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// Options of `tokens`.
struct tokens_options {
  int bits = 0; ///< Bits of a token, 16 or 32; 0: as in the file's header, or 16 if the file has no header.
};

namespace detail {

/// Where and how a file stores its tokens.
struct token_layout {
  std::int64_t begin; ///< Byte offset of the first token.
  token_width width;  ///< Bytes per token.
};

/// The layout of a file of `size` bytes whose first 12 bytes (or all, if there are fewer) are `head`. `path`: the file
/// in errors. Throws `error` for an llm.c header that is incomplete, has the wrong version for its magic number, has a
/// wrong number of tokens or contradicts `.bits` of the options. Also throws `error` for a file without tokens, for an
/// incomplete last token, and for `.bits` other than 0, 16 and 32.
token_layout find_tokens(std::span<std::byte const> head, std::int64_t size, std::string const& path,
                         tokens_options const& options = {});

} // namespace detail

/// A corpus from a file of little-endian tokens of 16 or 32 bits. The file has no header, as nanoGPT writes it (set
/// `.bits` for 32-bit tokens), or an llm.c header: magic number 20240520 and version 1 for 16 bits (GPT-2), or 20240801
/// and version 7 for 32 bits (Llama 3). Throws `error` if the file cannot be read, has no tokens, ends within a token,
/// has a wrong header or a header that contradicts `.bits`, or has a token above `corpus::largest_token`. Also throws
/// `error` for `.bits` other than 0, 16 and 32. The file is scanned once, for its largest token and its checksum, and
/// stays open. Tokens are read when they are used. Reading throws `error` if the file has become shorter or cannot be
/// read, if a token is larger than the largest token of the scan, or if the tokens and one of the file's times
/// (modification, status change) have changed since the scan. Appending to the file is allowed: the tokens of a file
/// that has grown are not compared with the scanned tokens.
corpus tokens(std::string const& path, tokens_options const& options = {});

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/tokens.ipp"
#endif
