#pragma once

#include "constrain/data/corpus.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT::data {

namespace detail {

/// The offset of the first token in a file of `size` bytes whose first bytes are `head`. Throws `error` for an llm.c
/// header that is incomplete, has a version other than 1 or a wrong number of tokens, for a file without tokens, and
/// for an odd number of bytes.
std::int64_t find_tokens(std::span<std::byte const> head, std::int64_t size, std::string const& path);

} // namespace detail

/// A corpus from a file of 16-bit little-endian tokens: without a header, as nanoGPT writes them, or with the header of
/// llm.c (version 1). Throws `error` if the file cannot be read, has no tokens, or has an odd number of bytes or a
/// wrong header. The file is scanned once, for its largest token and its checksum, and stays open. Tokens are read when
/// they are used. Reading throws `error` if the file has become shorter or cannot be read, if a token is larger than
/// the largest token of the scan, or if both the file's modification time and its tokens have changed since the scan.
/// Appending to the file is allowed: the tokens of a file that has grown are not compared with those of the scan.
corpus tokens(std::string const& path);

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/tokens.ipp"
#endif
