#pragma once

#include "constrain/io/manifest.hpp"

#include "constrain/base/error.hpp"
#include "constrain/io/json.hpp"
#include "constrain/io/json_writer.hpp"
#include "constrain/io/text_bytes.hpp"

#include <algorithm>
#include <charconv>

namespace constrain::inline CONSTRAIN_VARIANT::io {

namespace detail {

/// Whether `root` has the member "format" of a manifest.
[[gnu::cold]] CONSTRAIN_INLINE bool has_manifest_format(json const& root) {
  auto const format = root.value("format");
  return format && format->kind() == json_kind::string && format->string() == manifest::format;
}

} // namespace detail

[[gnu::cold]] CONSTRAIN_INLINE auto manifest::find(std::string_view name) const -> entry const* {
  for (auto const& file : files)
    if (file.name == name) return &file;
  return nullptr;
}

[[gnu::cold]] CONSTRAIN_INLINE std::string manifest::text() const {
  json_writer w;
  w.object().member("format", format).member("version", version).object("files");
  for (auto const& file : files)
    w.object(file.name, json_layout::row).member("bytes", file.bytes).member("crc32c", hexadecimal(file.crc32c)).end();
  auto body = w.end().end().text();
  body.resize(body.size() - 2); // "\n}", which the trailer writes after the checksum
  return body + trailer(body);
}

[[gnu::cold]] CONSTRAIN_INLINE manifest manifest::parse(std::string_view text, std::string const& source) {
  auto const root = json::parse(text, source);
  if (!detail::has_manifest_format(root))
    throw error({"'", source, "' does not have the format '", format, "'; give a directory that this library wrote"});
  if (root["version"].int64() != version)
    throw error({"'", source, "' has version ", root["version"].number(), ", but this library reads version ", version,
                 "; use the library version that wrote it"});
  auto const body = text.substr(0, text.size() - std::min(text.size(), trailer({}).size()));
  if (text.substr(body.size()) != trailer(body))
    throw error({"'", source, "' was changed after it was written; use another copy"});
  manifest result;
  auto const list = root["files"];
  for (auto const& [name, file] : list.members()) {
    if (!valid_file_name(name))
      throw error({"'", source, "' lists a file with the invalid name '", name, "'; use another copy"});
    entry e{std::string(name), file["bytes"].uint64(), 0};
    auto const checksum = file["crc32c"].string();
    std::from_chars(checksum.data(), checksum.data() + checksum.size(), e.crc32c, 16);
    if (checksum != hexadecimal(e.crc32c)) file["crc32c"].fail("a checksum of eight hexadecimal digits");
    result.files.push_back(std::move(e));
  }
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE bool manifest::is_foreign(std::string_view text) {
  auto const root = json::parse(text, manifest_name);
  return !detail::has_manifest_format(root) && !root.value("crc32c");
}

[[gnu::cold]] CONSTRAIN_INLINE std::string manifest::hexadecimal(std::uint32_t value) {
  std::string digits;
  for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[value >> shift & 15];
  return digits;
}

[[gnu::cold]] CONSTRAIN_INLINE std::string manifest::trailer(std::string_view body) {
  auto const checksum = io::crc32c{}.update(text_bytes(body)).value();
  return concat({",\n  \"crc32c\": \"", hexadecimal(checksum), "\"\n}\n"});
}

} // namespace constrain::io
