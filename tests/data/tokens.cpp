#include "../sentence.hpp"
#include "../temporary_directory.hpp"

#include <constrain/data/tokens.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace data = constrain::data;
using namespace constrain::test;

namespace {

std::string bytes_of(std::vector<std::uint16_t> const& tokens) {
  std::string bytes;
  for (auto token : tokens) bytes += static_cast<char>(token & 255), bytes += static_cast<char>(token >> 8);
  return bytes;
}

std::string bytes_of_wide(std::vector<std::uint32_t> const& tokens) {
  std::string bytes;
  for (auto token : tokens)
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(token >> shift & 255);
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

/// Changes bytes of a file in place, at a time that a file system tells from the one before.
void overwrite(std::string const& path, off_t at, std::string const& bytes) {
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  int const file = ::open(path.c_str(), O_WRONLY);
  REQUIRE(::pwrite(file, bytes.data(), bytes.size(), at) == static_cast<ssize_t>(bytes.size()));
  ::close(file);
}

std::vector<std::uint16_t> counted(int count) {
  std::vector<std::uint16_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<std::uint16_t>(i * 7 % 256));
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
    CHECK(sentence([&] { corpus.copy(5, two); }) ==
          "a corpus of 6 tokens was read out of bounds: 2 tokens starting at token 5; read only tokens that it has");
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
  auto const begin = "the token file '" + path + "' ";
  CHECK(refusal("") == begin + "has no tokens; give a file with at least one");
  CHECK(refusal("abc") == begin + "has an odd number of bytes, 3, but each token takes two; write the file again");
  CHECK(refusal(header(20240520, 7, 2) + "abcd") ==
        begin + "has an llm.c header of version 7; give a file of version 1 (16-bit tokens) or without a header");
  CHECK(refusal(header(20240520, 1, 0)) == begin + "has no tokens; give a file with at least one");
  for (std::size_t length = 12; length < 1024; ++length)
    CHECK(refusal(header(20240520, 1, 2).substr(0, length)) ==
          begin + "ends inside its header, after " + std::to_string(length) + " bytes; write the file again");
  // The header's count against what follows, counts near the limits of 32 bits included.
  for (std::uint32_t const count : {0u, 1u, 3u, 0x7fffffffu, 0x80000000u, 0x80000002u, 0xffffffffu})
    CHECK(refusal(header(20240520, 1, count) + "abcd") ==
          begin + "has a header that declares " + std::to_string(count) + (count == 1 ? " token" : " tokens") +
              " of 2 bytes, but has 4 bytes after the header; write the file again");
  CHECK(sentence([&] { data::tokens(directory / "none.bin"); }).ends_with("does not exist; check the path"));
  CHECK(sentence([&] { data::tokens(directory.path.string()); }).ends_with("is a directory; give the path of a file"));
}

TEST_CASE("tokens: a file that is cut short says so where its tokens are asked for") {
  temporary_directory const directory;
  auto const path = directory / "x.bin";
  for (std::string const& head : {std::string(), header(20240520, 1, 20000)})
    for (std::size_t const left : {0, 1, 20000, 39998}) {
      CAPTURE(left);
      write_file(path, head + bytes_of(counted(20000)));
      auto const corpus = data::tokens(path);
      auto const part = corpus.split(0.5).validation;
      std::filesystem::resize_file(path, head.size() + left);
      std::vector<std::int32_t> out(100);
      for (auto const* each : {&corpus, &part})
        CHECK(sentence([&] { each->copy(each->size() - 100, out); }) ==
              "the token file '" + path + "' was truncated while in use: it had " +
                  std::to_string(head.size() + 40000) + " bytes and has " + std::to_string(head.size() + left) +
                  " now; do not change the file during a run; write new tokens to another file");
      CHECK(sentence([&] { corpus.split(0.1); }).find("was truncated") != std::string::npos);
    }
}

TEST_CASE("tokens: a file that is written to says so, one that is touched, appended to or replaced does not") {
  temporary_directory const directory;
  auto const path = directory / "x.bin";
  auto const said = "the token file '" + path +
                    "' was changed while in use; do not change the file during a run; write new tokens to "
                    "another file";
  std::vector<std::int32_t> out(100);
  // Beyond the vocabulary, at the end of it, and to what the vocabulary has.
  for (std::uint16_t const token : {65535, 256, 9}) {
    write_file(path, bytes_of(counted(20000)));
    auto const corpus = data::tokens(path);
    CHECK(corpus.vocabulary() == 256);
    overwrite(path, 20000, bytes_of(std::vector<std::uint16_t>(50, token)));
    CHECK(sentence([&] { corpus.copy(9990, out); }) == said);
    CHECK(sentence([&] { corpus.copy(0, out); }) == said); // far from what was changed
  }
  write_file(path, bytes_of(counted(20000)));
  auto const corpus = data::tokens(path);
  auto const before = all(corpus);
  overwrite(path, 20000, bytes_of({before.begin() + 10000, before.begin() + 10050})); // the same bytes
  CHECK(all(corpus) == before);
  overwrite(path, 40000, bytes_of({65535, 1, 2}));
  CHECK(all(corpus) == before);
  // Appended to, it is looked at for its vocabulary alone.
  overwrite(path, 20000, bytes_of({65535}));
  CHECK(sentence([&] { corpus.copy(9990, out); }) == said);
  // Another file of that name is not the one that is open.
  write_file(directory / "new.bin", bytes_of({1, 2, 3}));
  std::filesystem::rename(directory / "new.bin", path);
  CHECK(sentence([&] { corpus.copy(0, out); }) == "");
}

TEST_CASE("tokens: a file that is written to says so, although its modification time is set back") {
  temporary_directory const directory;
  auto const path = directory / "x.bin";
  write_file(path, bytes_of(counted(20000)));
  auto const corpus = data::tokens(path);
  auto const before = all(corpus);
  auto const time = std::filesystem::last_write_time(path);
  overwrite(path, 20000, bytes_of({before.begin() + 10000, before.begin() + 10050})); // the same bytes
  std::filesystem::last_write_time(path, time);
  std::filesystem::rename(path, directory / "y.bin"); // changes the status change time
  CHECK(all(corpus) == before);
  overwrite(directory / "y.bin", 20000, bytes_of({9}));
  std::filesystem::last_write_time(directory / "y.bin", time);
  CHECK(sentence([&] { corpus.token(0); }).find("was changed while in use") != std::string::npos);
}

TEST_CASE("tokens of 32 bits: with and without llm.c's header") {
  temporary_directory const directory;
  std::vector<std::uint32_t> const tokens{128000, 0, 65536, 70000, 258, 7};
  std::vector<std::int32_t> const expected(tokens.begin(), tokens.end());
  write_file(directory / "plain.bin", bytes_of_wide(tokens));
  write_file(directory / "header.bin", header(20240801, 7, 6) + bytes_of_wide(tokens));
  for (auto const& corpus :
       {data::tokens(directory / "plain.bin", {.bits = 32}), data::tokens(directory / "header.bin"),
        data::tokens(directory / "header.bin", {.bits = 32})}) {
    CHECK(all(corpus) == expected);
    CHECK(corpus.vocabulary() == 128001);
    CHECK(corpus.token(3) == 70000);
    auto const [train, validation] = corpus.split(0.34);
    CHECK(all(train) == std::vector<std::int32_t>{128000, 0, 65536, 70000});
    CHECK(all(validation) == std::vector<std::int32_t>{258, 7});
    CHECK(validation.vocabulary() == 128001);
    CHECK((corpus.fingerprint() >> 32) == 6); // tokens
  }
  CHECK(data::tokens(directory / "plain.bin", {.bits = 32}).fingerprint() ==
        data::tokens(directory / "header.bin").fingerprint());
  // The same bytes as 16-bit tokens have another length in tokens.
  CHECK(data::tokens(directory / "plain.bin").size() == 12);
  CHECK(data::tokens(directory / "plain.bin").fingerprint() !=
        data::tokens(directory / "plain.bin", {.bits = 32}).fingerprint());
}

TEST_CASE("tokens of 32 bits: long files are read in parts that end between tokens") {
  temporary_directory const directory;
  std::vector<std::uint32_t> tokens;
  for (std::uint32_t i = 0; i < 200'000; ++i) tokens.push_back(i * 7919 % 1'000'003);
  for (std::string const& head : {std::string(), header(20240801, 7, 200'000)}) {
    write_file(directory / "x.bin", head + bytes_of_wide(tokens));
    auto const corpus = data::tokens(directory / "x.bin", {.bits = 32});
    CHECK(all(corpus) == std::vector<std::int32_t>(tokens.begin(), tokens.end()));
    CHECK(corpus.vocabulary() == 1 + static_cast<std::int32_t>(*std::max_element(tokens.begin(), tokens.end())));
    std::vector<std::int32_t> some(9000);
    corpus.copy(4095, some);
    CHECK(some == std::vector<std::int32_t>(tokens.begin() + 4095, tokens.begin() + 4095 + 9000));
  }
}

TEST_CASE("tokens of 32 bits: what is no file of them is refused") {
  temporary_directory const directory;
  auto const path = directory / "x.bin";
  auto const refusal = [&](std::string const& content, int bits) {
    write_file(path, content);
    return sentence([&] { data::tokens(path, {.bits = bits}); });
  };
  auto const begin = "the token file '" + path + "' ";
  CHECK(refusal("", 32) == begin + "has no tokens; give a file with at least one");
  CHECK(refusal("abcdef", 32) ==
        begin + "has 6 bytes, but each token takes four; write the file again, or leave .bits out for "
                "16-bit tokens");
  CHECK(refusal(header(20240801, 1, 1) + "abcd", 0) ==
        begin + "has an llm.c header of version 1; give a file of version 7 (32-bit tokens) or without a header");
  CHECK(refusal(header(20240801, 7, 1) + "abcd", 16) ==
        begin + "has an llm.c header for 32-bit tokens, but .bits is 16; leave .bits out");
  CHECK(refusal(header(20240520, 1, 2) + "abcd", 32) ==
        begin + "has an llm.c header for 16-bit tokens, but .bits is 32; leave .bits out");
  CHECK(refusal(header(20240801, 7, 2).substr(0, 40), 0) ==
        begin + "ends inside its header, after 40 bytes; write the file again");
  for (std::uint32_t const count : {0u, 2u, 0x3fffffffu, 0x40000001u, 0x80000001u, 0xffffffffu})
    CHECK(refusal(header(20240801, 7, count) + "abcd", 0) ==
          begin + "has a header that declares " + std::to_string(count) +
              " tokens of 4 bytes, but has 4 bytes after the header; write the file again");
  for (int const bits : {-1, 8, 64})
    CHECK(refusal("abcd", bits) ==
          "tokens_options: .bits is " + std::to_string(bits) + "; give 16 or 32, or 0 to follow the file's header");
  // A token that no vocabulary of 31 bits has, such as the -100 that marks an ignored label.
  for (std::uint32_t const token : {0x7fffffffu, 0x80000000u, static_cast<std::uint32_t>(-100)})
    CHECK(refusal(bytes_of_wide({1, token, 2}), 32) ==
          begin + "has the token " + std::to_string(token) +
              ", but the largest token of a vocabulary is at most 2147483646; give tokens from 0 to 2147483646 or, if "
              "they have 16 bits, token_width::uint16 (with data::tokens, leave .bits out)");
  std::vector<std::uint32_t> const in_memory{0x80000000u}; // not of a file, so `.bits` alone would be no advice
  CHECK(sentence([&] {
          data::corpus::from_storage(nullptr, std::as_bytes(std::span(in_memory)), data::token_width::uint32);
        }).ends_with("or, if they have 16 bits, token_width::uint16 (with data::tokens, leave .bits out)"));
  write_file(path, bytes_of_wide({data::corpus::largest_token}));
  CHECK(data::tokens(path, {.bits = 32}).vocabulary() == 0x7fffffff);
}

TEST_CASE("tokens of 32 bits: a file that is written to says so, also where a token becomes negative") {
  temporary_directory const directory;
  auto const path = directory / "x.bin";
  for (std::uint32_t const token : {0xffffffffu, 0x80000000u, 100'000u, 9u}) {
    write_file(path, bytes_of_wide(std::vector<std::uint32_t>(20000, 99'999)));
    auto const corpus = data::tokens(path, {.bits = 32});
    overwrite(path, 40000, bytes_of_wide({token}));
    std::vector<std::int32_t> out(100);
    CHECK(sentence([&] { corpus.copy(9950, out); }) ==
          "the token file '" + path +
              "' was changed while in use; do not change the file during a run; write new tokens to another file");
  }
  // A file that has grown is checked only for its vocabulary.
  write_file(path, bytes_of_wide(std::vector<std::uint32_t>(100, 5)));
  auto const corpus = data::tokens(path, {.bits = 32});
  overwrite(path, 400, bytes_of_wide({1}));
  overwrite(path, 0, bytes_of_wide({0x80000000u}));
  CHECK(sentence([&] { corpus.token(0); }).find("was changed while in use") != std::string::npos);
  CHECK(corpus.token(1) == 5);
}

TEST_CASE("tokens: the files that examples/tokenize_text.py writes") {
  std::string const directory = CONSTRAIN_FIXTURES "/token_files/"; // fixtures/make_token_files.py
  for (int const bits : {16, 32}) {
    // "one two", "three one unknown" and the end of each, in a vocabulary that begins with <end>, ?, one, two, three.
    std::vector<std::int32_t> expected{2, 3, 0, 4, 2, 1, 0};
    for (auto& token : expected) token += bits == 32 ? 70'000 : 0;
    auto const corpus = data::tokens(directory + std::to_string(bits) + ".bin");
    CHECK(all(corpus) == expected);
    CHECK(all(data::tokens(directory + std::to_string(bits) + "_plain.bin", {.bits = bits})) == expected);
    CHECK(corpus.vocabulary() == expected[3] + 1);
  }
}

TEST_CASE("a corpus whose storage is changed to tokens that it had not") {
  auto const storage = std::make_shared<std::vector<std::uint16_t>>(100, std::uint16_t{200});
  auto const corpus =
      data::corpus::from_storage(storage, std::as_bytes(std::span(*storage)), data::token_width::uint16);
  (*storage)[40] = 201;
  std::vector<std::int32_t> out(10);
  corpus.copy(41, out);
  CHECK(sentence([&] { corpus.copy(35, out); }) ==
        "the storage of a corpus was changed while in use: a token is now larger than the former maximum; do not "
        "change the storage while the corpus exists");
  for (std::uint8_t const width : {std::uint8_t{0}, std::uint8_t{3}, std::uint8_t{8}})
    CHECK(
        sentence([&] {
          data::corpus::from_storage(storage, std::as_bytes(std::span(*storage)), data::token_width{width});
        }).starts_with("corpus::from_storage: a token width of " + std::to_string(width) + " bytes is not supported"));
  CHECK(sentence([&] { corpus.labels(1, -1); }) ==
        "a corpus of 100 tokens was read out of bounds: -1 tokens starting at token 1; read only tokens that it has");
}
