#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "constrain/base/error.hpp"
#include "constrain/io/crc32c.hpp"
#include "constrain/io/json.hpp"
#include "constrain/io/json_writer.hpp"
#include "constrain/io/text_bytes.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

inline constexpr std::string_view manifest_name = "manifest.json";

/// Whether a file in a saved directory may have this name: letters, digits, '.', '_' and '-', not hidden, not the
/// manifest's, at most 128 bytes. A name cannot be a path, so a forged manifest cannot refer to files elsewhere.
constexpr bool valid_file_name(std::string_view name) {
  if (name.empty() || name.size() > 128 || name.front() == '.' || name == manifest_name) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    bool const letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  });
}

/// The list of files in a saved directory, with sizes and checksums. Its text ends with a checksum of its own, so that
/// every byte of the directory is covered.
struct manifest {
  static constexpr std::string_view format = "constrain directory";
  static constexpr int version = 1;

  /// A file of the directory.
  struct entry {
    std::string name;     // see `valid_file_name`
    std::uint64_t bytes;  // its size
    std::uint32_t crc32c; // CRC-32C of its content
  };
  std::vector<entry> files; // in the order in which they were written

  /// The entry of a file; null: none.
  entry const* find(std::string_view name) const {
    auto const found = std::find_if(files.begin(), files.end(), [&](entry const& e) { return e.name == name; });
    return found == files.end() ? nullptr : &*found;
  }

  /// The text of manifest.json.
  [[gnu::noinline, gnu::cold]] std::string text() const {
    json_writer w;
    w.object().member("format", format).member("version", version).object("files");
    for (auto const& file : files)
      w.object(file.name, json_layout::row)
          .member("bytes", file.bytes)
          .member("crc32c", hexadecimal(file.crc32c))
          .end();
    auto body = w.end().end().text();
    body.resize(body.size() - 2); // the trailer restores the "\n}" after the checksum
    return body + trailer(body);
  }

  /// Parses a manifest. Throws `error`, naming `where`, for anything that `text()` would not have written.
  [[gnu::noinline, gnu::cold]] static manifest parse(std::string_view text, std::string const& where) {
    auto const root = json::parse(text, where);
    if (root["format"].string() != format)
      throw error({"'", where, "' is of another format than '", format, "'; give a directory that this library wrote"});
    if (root["version"].int64() != version)
      throw error({"'", where, "' is of version ", root["version"].number(), " where this library reads ", version,
                   "; use the library that wrote it"});
    auto const body = text.substr(0, text.size() - std::min(text.size(), trailer({}).size()));
    if (text.substr(body.size()) != trailer(body))
      throw error({"'", where, "' was changed after it was written; use another copy"});
    manifest result;
    auto const list = root["files"];
    for (auto const& [name, file] : list.members()) {
      if (!valid_file_name(name))
        throw error({"'", where, "' lists a file with the name '", name, "'; use another copy"});
      entry e{std::string(name), file["bytes"].uint64(), 0};
      auto const sum = file["crc32c"].string();
      std::from_chars(sum.data(), sum.data() + sum.size(), e.crc32c, 16);
      if (sum != hexadecimal(e.crc32c)) file["crc32c"].fail("a checksum of eight hexadecimal digits");
      result.files.push_back(std::move(e));
    }
    return result;
  }

private:
  static std::string hexadecimal(std::uint32_t value) {
    std::string digits;
    for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[value >> shift & 15];
    return digits;
  }

  static std::string trailer(std::string_view body) {
    auto const sum = io::crc32c{}.update(text_bytes(body)).value();
    return concat({",\n  \"crc32c\": \"", hexadecimal(sum), "\"\n}\n"});
  }
};

} // namespace constrain::io
