#pragma once

#include "constrain/io/safetensors.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"
#include "constrain/io/safetensors_header.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE tensor const* safetensors::find(std::string_view name) const {
  for (auto const& t : tensors)
    if (t.name == name) return &t;
  return nullptr;
}

[[gnu::cold]] CONSTRAIN_INLINE safetensors parse_safetensors(std::span<std::byte const> file,
                                                             std::string const& source) {
  if (file.size() < 8)
    throw error({"'", source, "' has ", counted(file.size(), "byte"),
                 ", but a safetensors file has at least 8; give a complete safetensors file"});
  std::uint64_t header_size = 0;
  for (std::size_t i = 0; i < 8; ++i) header_size |= std::uint64_t(file[i]) << (8 * i);
  if (header_size > file.size() - 8)
    throw error({"'", source, "' declares a header of ", counted(header_size, "byte"), ", but has only ",
                 file.size() - 8, " for it; give a complete safetensors file"});
  auto const data = file.subspan(8 + header_size);
  std::string_view const text(reinterpret_cast<char const*>(file.data()) + 8, header_size);
  if (!text.starts_with('{'))
    throw error({"'", source, "' has a header that does not begin with '{'; give a safetensors file"});
  auto const header_name = concat({"the header of ", source});
  detail::safetensors_header const header({text, header_name}, source, data.size());
  header.check();
  safetensors result;
  header.read(
      [&](detail::safetensors_entry const& t) {
        result.tensors.push_back(
            {header.decoded(t.name), t.dtype, header.shape(t), data.subspan(t.begin, t.end - t.begin)});
      },
      [&](std::string_view name, std::string_view value) {
        result.metadata.push_back({header.decoded(name), header.decoded(value)});
      });
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE safetensors_file safetensors_file::open(std::string const& path) {
  safetensors_file result;
  result.file_ = mapped_file(path, "the safetensors file");
  result.contents_ = parse_safetensors(result.file_.bytes(), path);
  return result;
}

} // namespace constrain::io
