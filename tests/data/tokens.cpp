#include "../sentence.hpp"
#include "../temporary_directory.hpp"

#include <constrain/data/tokens.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace data = constrain::data;
using namespace constrain::test;

namespace {

std::string bytes_of(std::vector<std::uint16_t> const& tokens) {
  std::string bytes;
  for (auto token : tokens) bytes += static_cast<char>(token & 255), bytes += static_cast<char>(token >> 8);
  return bytes;
}

std::string header(std::uint32_t magic, std::uint32_t version, std::uint32_t count) {
  std::string bytes(1024, '\0');
  std::uint32_t const numbers[] = {magic, version, count};
  std::memcpy(bytes.data(), numbers, sizeof numbers);
  return bytes;
}

std::vector<std::int32_t> all(data::corpus const& corpus) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(corpus.size()));
  corpus.copy(0, tokens);
  return tokens;
}

} // namespace

TEST_CASE("tokens: with and without llm.c's header") {
  temporary_directory const directory;
  std::vector<std::uint16_t> const tokens{50256, 0, 1, 65535, 258, 7};
  write_file(directory / "plain.bin", bytes_of(tokens));
  write_file(directory / "header.bin", header(20240520, 1, 6) + bytes_of(tokens));
  for (auto const* name : {"plain.bin", "header.bin"}) {
    auto const corpus = data::tokens(directory / name);
    CHECK(all(corpus) == std::vector<std::int32_t>{50256, 0, 1, 65535, 258, 7});
    CHECK(corpus.vocabulary() == 65536);
    CHECK(corpus.token(4) == 258);
    std::vector<std::int32_t> two(2);
    corpus.copy(3, two);
    CHECK(two == std::vector<std::int32_t>{65535, 258});
    CHECK(sentence([&] { corpus.copy(5, two); }) == "a corpus of 6 tokens was asked for 2 from token 5 on; stay within it");
    auto const [train, validation] = corpus.split(0.34);
    CHECK(all(train) == std::vector<std::int32_t>{50256, 0, 1, 65535});
    CHECK(all(validation) == std::vector<std::int32_t>{258, 7});
    CHECK(validation.vocabulary() == 65536); // of the whole: a model for one part fits the other
  }
  CHECK(data::tokens(directory / "plain.bin").fingerprint() == data::tokens(directory / "header.bin").fingerprint());
}

TEST_CASE("tokens: a file that is removed stays readable") {
  temporary_directory const directory;
  write_file(directory / "plain.bin", bytes_of({1, 2, 3}));
  auto const corpus = data::tokens(directory / "plain.bin");
  std::filesystem::remove(directory / "plain.bin");
  CHECK(all(corpus) == std::vector<std::int32_t>{1, 2, 3});
  CHECK(corpus.vocabulary() == 4);
}

TEST_CASE("tokens: what is no file of tokens is refused") {
  temporary_directory const directory;
  auto const path = directory / "x.bin";
  auto const refusal = [&](std::string const& content) {
    write_file(path, content);
    return sentence([&] { data::tokens(path); });
  };
  auto const begin = "the tokens '" + path + "' ";
  CHECK(refusal("") == begin + "are none; give a file that holds some");
  CHECK(refusal("abc") == begin + "have an odd number of bytes, 3, but each takes two; write the file anew");
  CHECK(refusal(header(20240520, 7, 2) + "abcd") ==
        begin + "have a header of llm.c of version 7; give 16-bit tokens, version 1, or no header");
  CHECK(refusal(header(20240520, 1, 0)) == begin + "are none; give a file that holds some");
  for (std::size_t length = 12; length < 1024; ++length)
    CHECK(refusal(header(20240520, 1, 2).substr(0, length)) ==
          begin + "end within their header, after " + std::to_string(length) + " bytes; write the file anew");
  // The header's count against what follows, counts near the limits of 32 bits included.
  for (std::uint32_t const count : {0u, 1u, 3u, 0x7fffffffu, 0x80000000u, 0x80000002u, 0xffffffffu})
    CHECK(refusal(header(20240520, 1, count) + "abcd") ==
          begin + "are " + std::to_string(count) + " by their header, but 4 bytes follow it, not twice as many; write the file anew");
  CHECK(sentence([&] { data::tokens(directory / "none.bin"); }).ends_with("does not exist; check the path"));
  CHECK(sentence([&] { data::tokens(directory.path.string()); }).ends_with("is a directory; give the path of a file"));
}
