#include "../sentence.hpp"

#include <constrain/data/json_lines.hpp>
#include <constrain/data/tokens.hpp>
#include <constrain/io/manifest.hpp>
#include <constrain/io/safetensors.hpp>
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

// Files that somebody made to do harm: each is refused with one sentence that begins with, or quotes, its name.

namespace io = constrain::io;
namespace data = constrain::data;

namespace {

int cases = 0;

/// An exact allocation, so that a sanitizer sees a read past the end.
std::vector<std::byte> bytes_of(std::string const& text) {
  auto const* const begin = reinterpret_cast<std::byte const*>(text.data());
  return {begin, begin + text.size()};
}

template <class reader> void refuses(std::string const& content, reader const& read) {
  ++cases;
  auto const bytes = bytes_of(content);
  CAPTURE(content);
  auto const said = constrain::test::sentence([&] { read(bytes); });
  CAPTURE(said);
  CHECK(said.find("hostile") != std::string::npos);
  CHECK(said.find('\n') == std::string::npos);
}

auto const safetensors = [](std::vector<std::byte> const& bytes) { io::parse_safetensors(bytes, "hostile"); };
auto const tokens = [](std::vector<std::byte> const& bytes) {
  data::detail::find_tokens(bytes, static_cast<std::int64_t>(bytes.size()), "hostile");
};
auto const manifest = [](std::vector<std::byte> const& bytes) {
  io::manifest::parse({reinterpret_cast<char const*>(bytes.data()), bytes.size()}, "hostile");
};
auto const json_lines = [](std::vector<std::byte> const& bytes) {
  data::detail::parse_json_lines({reinterpret_cast<char const*>(bytes.data()), bytes.size()}, "hostile", {});
};

std::string number(std::uint64_t n, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(n >> 8 * i & 255);
  return bytes;
}

std::string file(std::string const& header, std::size_t data, std::uint64_t length) {
  return number(length, 8) + header + std::string(data, '\x2a');
}
std::string file(std::string const& header, std::size_t data) { return file(header, data, header.size()); }

/// Two tensors of 24 and 8 bytes, one member of the first written otherwise.
std::string header_with(std::string const& member, std::string const& value) {
  auto const pick = [&](std::string const& name, std::string const& sound) {
    return "\"" + name + "\":" + (name == member ? value : sound);
  };
  return "{\"a\":{" + pick("dtype", "\"F32\"") + "," + pick("shape", "[2,3]") + "," + pick("data_offsets", "[0,24]") +
         "},\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[24,32]}}";
}

std::string const not_utf8[] = {"\xff",     "\xc0\x80", "\xed\xa0\x80",         "\xf4\x90\x80\x80",
                                "\xe2\x82", "\x80",     "\xf8\x88\x80\x80\x80", "a\xc3"};

} // namespace

TEST_CASE("hostile: the sound file is read") {
  auto const sound = bytes_of(file(header_with("", ""), 32));
  CHECK(io::parse_safetensors(sound, "sound").tensors.size() == 2);
}

TEST_CASE("hostile: safetensors of other sizes than they say") {
  auto const sound = header_with("", "");
  for (std::uint64_t const length :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, sound.size() - 1, sound.size() + 1, sound.size() + 32,
        sound.size() + 33, std::uint64_t{1} << 31, std::uint64_t{1} << 32, (std::uint64_t{1} << 63) - 1,
        std::uint64_t{1} << 63, ~std::uint64_t{7}, ~std::uint64_t{0}})
    refuses(file(sound, 32, length), safetensors);
  for (std::size_t const size : {0, 1, 7, 8, 9}) refuses(file(sound, 32).substr(0, size), safetensors);
  for (std::size_t const size : {0, 1, 23, 24, 31, 33, 40, 4096}) refuses(file(sound, size), safetensors);
}

TEST_CASE("hostile: safetensors with dtypes and shapes that cannot be") {
  for (auto const* dtype : {"\"\"", "\"F3\"", "\"f32\"", "\"F32 \"", "\"FLOAT\"", "\"F64\"", "\"BF16\"",
                            "\"F32\\u0000\"", "32", "null", "[]", "{}", "true"})
    refuses(file(header_with("dtype", dtype), 32), safetensors);
  for (auto const* shape : {"[-2,-3]",
                            "[-1]",
                            "[2,4]",
                            "[7]",
                            "[]",
                            "[2,3,2]",
                            "[2.0,3]",
                            "[2.5,3]",
                            "[\"2\",3]",
                            "null",
                            "6",
                            "{}",
                            "\"6\"",
                            "[[6]]",
                            "[6e0]",
                            "[9223372036854775807,2]",
                            "[4294967296,4294967296]",
                            "[18446744073709551615]",
                            "[18446744073709551616]",
                            "[4611686018427387910]",
                            "[0]",
                            "[0,9223372036854775807]",
                            "[2,3",
                            "[2,,3]",
                            "[2,3,]"})
    refuses(file(header_with("shape", shape), 32), safetensors);
}

TEST_CASE("hostile: safetensors with offsets that do not fit") {
  for (auto const* offsets : {"[0,23]",
                              "[0,25]",
                              "[1,25]",
                              "[8,32]",
                              "[24,0]",
                              "[24,48]",
                              "[0]",
                              "[]",
                              "[0,24,24]",
                              "[-1,23]",
                              "[0.0,24.0]",
                              "[\"0\",24]",
                              "null",
                              "24",
                              "{}",
                              "[0,18446744073709551615]",
                              "[18446744073709551592,18446744073709551615]",
                              "[9223372036854775808,9223372036854775832]",
                              "[18446744073709551616,18446744073709551640]",
                              "[0,null]",
                              "[[0,24]]"})
    refuses(file(header_with("data_offsets", offsets), 32), safetensors);
  std::string const b = "\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":";
  auto const second = [&](std::string const& offsets) {
    return "{\"a\":{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24]}," + b + offsets + "}}";
  };
  for (auto const* offsets : {"[0,8]", "[16,24]", "[20,28]", "[25,33]", "[23,31]", "[32,40]"})
    refuses(file(second(offsets), 32), safetensors);
  refuses(file(second("[32,40]"), 40), safetensors); // a hole
}

TEST_CASE("hostile: safetensors with headers that are none") {
  for (auto const* header :
       {"",
        "null",
        "[]",
        "5",
        "\"a\"",
        "{",
        "}",
        "{}}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":5}",
        "{\"a\":null}",
        "{\"a\":[]}",
        "{\"a\":{}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[32]}}",
        "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,32]}}",
        "{\"a\":{\"shape\":[32],\"data_offsets\":[0,32]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[32],\"data_offsets\":[0,32],\"more\":1}}",
        "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[32],\"data_offsets\":[0,32]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[16],\"data_offsets\":[0,16]},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[16],\"data_offsets\":[16,32]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[32],\"data_offsets\":[0,32]},\"__metadata__\":5}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[32],\"data_offsets\":[0,32]},\"__metadata__\":{\"k\":5}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[32],\"data_offsets\":[0,32]},\"__metadata__\":{\"k\":{}}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[32],\"data_offsets\":[0,32]},\"__metadata__\":[]}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[32],\"data_offsets\":[0,32]},}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[32],\"data_offsets\":[0,32]}}x",
        " {\"a\":{\"dtype\":\"U8\",\"shape\":[32],\"data_offsets\":[0,32]}}",
        "\xef\xbb\xbf{\"a\":{\"dtype\":\"U8\",\"shape\":[32],\"data_offsets\":[0,32]}}"})
    refuses(file(header, 32), safetensors);
  for (auto const& name : not_utf8)
    refuses(file("{\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[32],\"data_offsets\":[0,32]}}", 32), safetensors);
  for (auto const* name : {"\\ud800", "\\udc00", "\\ud800\\u0041", "\\u12g4", "\\x41", "\n", "\t"})
    refuses(file(std::string("{\"") + name + "\":{\"dtype\":\"U8\",\"shape\":[32],\"data_offsets\":[0,32]}}", 32),
            safetensors);
  for (int const depth : {100, 1'000, 100'000})
    refuses(file("{\"a\":" + std::string(static_cast<std::size_t>(depth), '[') +
                     std::string(static_cast<std::size_t>(depth), ']') + "}",
                 32),
            safetensors);
}

TEST_CASE("hostile: tokens") {
  auto const header = [](std::uint64_t magic, std::uint64_t version, std::uint64_t count, std::size_t bytes,
                         std::size_t data) {
    auto text = number(magic, 4) + number(version, 4) + number(count, 4);
    text.resize(bytes, '\0');
    return text + std::string(data, '\x01');
  };
  constexpr std::uint64_t magic = 20240520;
  for (std::uint64_t const version : {0u, 2u, 3u, 256u, 0x7fffffffu, 0x80000000u, 0xffffffffu})
    refuses(header(magic, version, 8, 1024, 16), tokens);
  for (std::uint64_t const count : {0u, 1u, 7u, 9u, 16u, 0x7fffffffu, 0x80000000u, 0x80000008u, 0xffffffffu})
    refuses(header(magic, 1, count, 1024, 16), tokens);
  for (std::size_t const size : {12, 13, 100, 1022, 1023}) refuses(header(magic, 1, 8, size, 0), tokens);
  for (std::size_t const data : {0, 1, 14, 15, 17, 18}) refuses(header(magic, 1, 8, 1024, data), tokens);
  for (std::size_t const size : {0, 1, 3, 5, 4097}) refuses(std::string(size, '\x07'), tokens);
}

TEST_CASE("hostile: a line of texts") {
  for (auto const* line : {"{",
                           "}",
                           "[]",
                           "5",
                           "null",
                           "\"text\"",
                           "{}",
                           "{\"text\"}",
                           "{\"text\":}",
                           "{\"text\":5}",
                           "{\"text\":null}",
                           "{\"text\":[]}",
                           "{\"text\":{}}",
                           "{\"text\":true}",
                           "{\"Text\":\"a\"}",
                           "{\"input\":\"a\"}",
                           "{\"output\":\"a\"}",
                           "{\"input\":1,\"output\":\"a\"}",
                           "{\"input\":\"a\",\"output\":1}",
                           "{\"text\":\"a\",\"text\":\"b\"}",
                           "{\"text\":\"a\"}}",
                           "{\"text\":\"a\"} {\"text\":\"b\"}",
                           "{\"text\":\"a\",}",
                           "{'text':'a'}",
                           "{\"text\":\"\\q\"}",
                           "{\"text\":\"\\ud800\"}",
                           "{\"text\":\"\\u00\"}",
                           "{\"text\":\"a"})
    refuses(std::string("{\"text\":\"sound\"}\n") + line + "\n", json_lines);
  for (auto const& text : not_utf8) refuses("{\"text\":\"" + text + "\"}\n", json_lines);
  refuses("{\"text\":" + std::string(100'000, '[') + "\n", json_lines);
  refuses(std::string("{\"text\":\"a\0b\"}\n", 15), json_lines);
}

TEST_CASE("hostile: a manifest with any bit flipped, any byte missing or one more") {
  io::manifest sound;
  sound.files = {{"model.safetensors", 123, 0xdeadbeef}, {"state.json", 7, 5}};
  auto const text = sound.text();
  CHECK(io::manifest::parse(text, "sound").files.size() == 2);
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      auto flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ 1 << bit);
      refuses(flipped, manifest);
    }
    refuses(text.substr(0, i), manifest);
    refuses(text.substr(0, i) + " " + text.substr(i), manifest);
  }
}

TEST_CASE("hostile: what a file says commands no terminal") {
  auto const said = constrain::test::sentence([] {
    safetensors(
        bytes_of(file("{\"\\u001b[2J\\n\\u007f\":{\"dtype\":\"U8\",\"shape\":[33],\"data_offsets\":[0,33]}}", 32)));
  });
  CHECK(said == "the tensor '?[2J?"
                "?' in 'hostile' ends at byte 33 of the data, but the file has 32 bytes of data; get the file again");
}

TEST_CASE("hostile: there were enough of them") {
  MESSAGE(cases << " files");
  CHECK(cases >= 200);
}
