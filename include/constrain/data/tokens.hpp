#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "constrain/data/corpus.hpp"
#include "constrain/io/failure.hpp"
#include "constrain/io/mapped_file.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::data {

namespace detail {

/// The header that llm.c writes before its tokens: 256 numbers of 32 bits, of which three count.
struct llm_c_header {
  static constexpr std::size_t bytes = 256 * 4;
  static constexpr std::uint32_t magic = 20240520;
  std::uint32_t numbers[3]{}; // magic, version, tokens
};

/// The tokens in the bytes of a file. Throws `error`, beginning with the path.
inline std::span<std::byte const> token_bytes(std::span<std::byte const> file, std::string const& path) {
  llm_c_header header;
  if (file.size() >= sizeof header.numbers) std::memcpy(header.numbers, file.data(), sizeof header.numbers);
  auto const refuse = [&](std::initializer_list<io::piece> rest) {
    std::string sentence = "the tokens '" + path + "' ";
    for (auto const& piece : rest) sentence += piece.view();
    return error(sentence);
  };
  if (header.numbers[0] == llm_c_header::magic) {
    if (header.numbers[1] != 1)
      throw refuse({"have a header of llm.c of version ", header.numbers[1],
                    "; give 16-bit tokens, version 1, or no header"});
    if (file.size() < header.bytes)
      throw refuse({"end within their header, after ", file.size(), " bytes; write the file anew"});
    file = file.subspan(header.bytes);
    if (file.size() != std::size_t{2} * header.numbers[2])
      throw refuse({"are ", header.numbers[2], " by their header, but ", file.size(),
                    " bytes follow it, not twice as many; write the file anew"});
  }
  if (file.empty()) throw refuse({"are none; give a file that holds some"});
  if (file.size() % 2 != 0)
    throw refuse({"have an odd number of bytes, ", file.size(), ", but each takes two; write the file anew"});
  return file;
}

} // namespace detail

/// Tokens of 16 bits, the lower byte first: without a header, as nanoGPT writes them, or with llm.c's (version 1). The
/// file stays mapped, and is read once whole, for its largest token and its checksum. Throws `error`.
inline corpus tokens(std::string const& path) {
  auto file = std::make_shared<io::mapped_file const>(path, "the tokens");
  auto const all = detail::token_bytes(file->bytes(), path);
  return corpus::from_storage(std::move(file), all, token_width::uint16);
}

} // namespace constrain::data
