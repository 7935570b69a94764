#pragma once

#include "constrain/data/tokens.hpp"

#include "constrain/base/error.hpp"
#include "constrain/data/token_source.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::data::detail {

/// The header of llm.c's token files has 256 integers of 32 bits. Only the first three are used.
struct llm_c_header {
  static constexpr std::int64_t bytes = 256 * 4;
  static constexpr std::uint32_t magic = 20240520;
  std::uint32_t numbers[3]{}; // magic, version, tokens
};

CONSTRAIN_INLINE std::int64_t find_tokens(std::span<std::byte const> head, std::int64_t size, std::string const& path) {
  llm_c_header header;
  std::memcpy(header.numbers, head.data(), std::min(sizeof header.numbers, head.size()));
  std::int64_t begin = 0;
  auto const refuse = [&](std::initializer_list<text_part> rest) {
    return error({"the token file '", path, "' ", concat(rest)});
  };
  if (header.numbers[0] == llm_c_header::magic) {
    if (head.size() >= sizeof header.numbers && header.numbers[1] != 1)
      throw refuse({"has an llm.c header of version ", header.numbers[1],
                    "; give a file of version 1 (16-bit tokens) or without a header"});
    begin = header.bytes;
    if (size < begin) throw refuse({"ends inside its header, after ", counted(size, "byte"), "; write the file again"});
    if (size - begin != std::int64_t{2} * header.numbers[2])
      throw refuse({"has a header that declares ", counted(header.numbers[2], "token"),
                    " of 2 bytes, but is followed by ", counted(size - begin, "byte"), "; write the file again"});
  }
  if (size == begin) throw refuse({"is empty; give a file with at least one token"});
  if ((size - begin) % 2 != 0)
    throw refuse({"has an odd number of bytes, ", size - begin, ", but each token takes two; write the file again"});
  return begin;
}

} // namespace constrain::data::detail

namespace constrain::inline CONSTRAIN_VARIANT::data {

CONSTRAIN_INLINE corpus tokens(std::string const& path) {
  auto file = std::make_shared<token_file>(path);
  std::byte head[sizeof detail::llm_c_header::numbers];
  std::span<std::byte> const first(static_cast<std::byte*>(head),
                                   static_cast<std::size_t>(std::min<std::int64_t>(sizeof head, file->size())));
  file->read(0, first);
  auto const begin = detail::find_tokens(first, file->size(), path);
  return corpus::from_file(std::move(file), begin);
}

} // namespace constrain::data
