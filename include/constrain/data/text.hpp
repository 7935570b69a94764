#pragma once

#include "constrain/data/corpus.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// Options of `text`.
struct text_options {
  std::vector<std::string> extensions{}; ///< Endings (".txt") of the files to read in a directory; empty: all.
  /// Maximum number of bytes to read from all files together; at least 1. By default, all bytes are read.
  std::int64_t maximum_bytes = std::numeric_limits<std::int64_t>::max();
};

namespace detail {

/// Appends a file's content to `bytes`, but stops when `bytes` has `maximum` bytes. Throws `error` if the file cannot
/// be read or, by the file's size, the result would exceed this machine's physical memory.
[[gnu::cold]] void append_file(std::string const& path, std::size_t maximum, std::string& bytes);

} // namespace detail

/// A corpus of byte tokens from a text file, or from the files in a directory tree, concatenated in the order of their
/// relative paths. In a tree, skips hidden files and directories, special files and broken links, and, if `.extensions`
/// is not empty, files with other endings. Follows other symbolic links, but reads each directory only once, and no
/// directory above the tree. Throws `error` if there is no text, if a file or directory cannot be read, if the text
/// exceeds this machine's physical memory, or if `.maximum_bytes` is below 1.
[[gnu::cold]] corpus text(std::string const& path, text_options const& options = {});

/// A corpus of byte tokens from text in memory. Throws `error` if the text is empty.
inline corpus text_from(std::string_view content) { return corpus::from_bytes(std::string(content)); }

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/text.ipp"
#endif
