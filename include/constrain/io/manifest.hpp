#pragma once

#include "constrain/io/crc32c.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// The file name of the manifest.
inline constexpr std::string_view manifest_name = "manifest.json";

/// Whether a file in a saved directory may have this name. A valid name has 1 to 128 characters: ASCII letters, digits,
/// '.', '_' and '-'. It does not begin with '.' and is not the manifest's name. A valid name cannot be a path, so a
/// forged manifest cannot refer to files elsewhere.
constexpr bool valid_file_name(std::string_view name) {
  if (name.empty() || name.size() > 128 || name.front() == '.' || name == manifest_name) return false;
  for (char const c : name) {
    bool const is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_letter && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-') return false;
  }
  return true;
}

/// The list of files in a saved directory, with the sizes and checksums by which a reader detects a damaged file. The
/// list does not contain the manifest: the manifest's text ends with a checksum of the rest of the text.
struct manifest {
  /// The members "format" and "version" of the text.
  static constexpr std::string_view format = "constrain directory";
  static constexpr int version = 1;

  /// A file of the directory.
  struct entry {
    std::string name;     // see `valid_file_name`
    std::uint64_t bytes;  // size of the file
    std::uint32_t crc32c; // CRC-32C of the file's content
  };
  std::vector<entry> files; // in the order in which they were written

  /// The entry of the file `name`, or null if there is none.
  entry const* find(std::string_view name) const;

  /// The text of manifest.json. The caller must give the files different names.
  [[gnu::cold]] std::string text() const;

  /// Parses a manifest. Throws an `error` that names `source` if the text is not valid JSON, or if its format, its
  /// version, its checksum or a file's entry is wrong.
  [[gnu::cold]] static manifest parse(std::string_view text, std::string const& source);

  /// Whether `text` is another program's manifest.json: it has neither this library's "format" nor a "crc32c". Throws
  /// `error` if the text is not valid JSON, such as a truncated manifest.
  [[gnu::cold]] static bool is_foreign(std::string_view text);

private:
  /// `value` as eight hexadecimal digits.
  static std::string hexadecimal(std::uint32_t value);

  /// The last lines of the text, with the checksum of `body`, the text before these lines.
  static std::string trailer(std::string_view body);
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/manifest.ipp"
#endif
