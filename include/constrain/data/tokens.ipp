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
  std::uint32_t numbers[3]{}; // magic number, version, number of tokens

  /// A kind of header: each tokenizer of llm.c has a magic number, a version and a token width.
  struct kind {
    std::uint32_t magic, version;
    token_width width;
  };
  static constexpr kind kinds[] = {{20240520, 1, token_width::uint16}, {20240801, 7, token_width::uint32}};
};

CONSTRAIN_INLINE token_layout find_tokens(std::span<std::byte const> head, std::int64_t size, std::string const& path,
                                          tokens_options const& options) {
  if (options.bits != 0 && options.bits != 16 && options.bits != 32)
    throw error({"tokens_options: .bits is ", options.bits, "; give 16 or 32, or 0 to follow the file's header"});
  llm_c_header header;
  std::memcpy(header.numbers, head.data(), std::min(sizeof header.numbers, head.size()));
  token_layout layout{0, options.bits == 32 ? token_width::uint32 : token_width::uint16};
  auto const refusal = [&](std::initializer_list<text_part> message) {
    return error({"the token file '", path, "' ", concat(message)});
  };
  auto const apply_header = [&](llm_c_header::kind const& kind) {
    auto const width = static_cast<std::int64_t>(kind.width);
    if (head.size() >= sizeof header.numbers && header.numbers[1] != kind.version)
      throw refusal({"has an llm.c header of version ", header.numbers[1], "; give a file of version ", kind.version,
                     " (", 8 * width, "-bit tokens) or without a header"});
    if (options.bits != 0 && options.bits != 8 * width)
      throw refusal(
          {"has an llm.c header for ", 8 * width, "-bit tokens, but .bits is ", options.bits, "; leave .bits out"});
    if (size < llm_c_header::bytes)
      throw refusal({"ends inside its header, after ", counted(size, "byte"), "; write the file again"});
    if (size - llm_c_header::bytes != width * header.numbers[2])
      throw refusal({"has a header that declares ", counted(header.numbers[2], "token"), " of ", width,
                     " bytes, but has ", counted(size - llm_c_header::bytes, "byte"),
                     " after the header; write the file again"});
    layout = {llm_c_header::bytes, kind.width};
  };
  for (auto const& kind : llm_c_header::kinds)
    if (header.numbers[0] == kind.magic) apply_header(kind);
  auto const bytes = size - layout.begin;
  if (bytes == 0) throw refusal({"has no tokens; give a file with at least one"});
  if (layout.width == token_width::uint16 && bytes % 2 != 0)
    throw refusal({"has an odd number of bytes, ", bytes, ", but each token takes two; write the file again"});
  if (bytes % static_cast<std::int64_t>(layout.width) != 0)
    throw refusal({"has ", counted(bytes, "byte"),
                   ", but each token takes four; write the file again, or leave .bits out for 16-bit tokens"});
  return layout;
}

} // namespace constrain::data::detail

namespace constrain::inline CONSTRAIN_VARIANT::data {

CONSTRAIN_INLINE corpus tokens(std::string const& path, tokens_options const& options) {
  auto file = std::make_shared<token_file>(path);
  std::byte head[sizeof detail::llm_c_header::numbers];
  std::span<std::byte> const first(static_cast<std::byte*>(head),
                                   static_cast<std::size_t>(std::min<std::int64_t>(sizeof head, file->size())));
  file->read(0, first);
  auto const [begin, width] = detail::find_tokens(first, file->size(), path, options);
  return corpus::from_file(std::move(file), begin, width);
}

} // namespace constrain::data
