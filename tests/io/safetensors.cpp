#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "../sentence.hpp"
#include "../temporary_directory.hpp"
#include "constrain/io/safetensors.hpp"
#include "constrain/io/safetensors_header.hpp"
#include "constrain/io/safetensors_writer.hpp"

using namespace constrain::io;
using namespace constrain::test;

namespace {

std::string with_header(std::string const& header, std::size_t data, std::uint64_t length) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(length >> (8 * i));
  return file + header + std::string(data, '\x2a');
}

std::string with_header(std::string const& header, std::size_t data) {
  return with_header(header, data, header.size());
}

std::string refusal(std::string const& file) {
  // An exact allocation, so that the sanitizer sees a read past the end.
  std::vector<std::byte> const bytes(reinterpret_cast<std::byte const*>(file.data()),
                                     reinterpret_cast<std::byte const*>(file.data()) + file.size());
  return sentence([&] { parse_safetensors(bytes, "m"); });
}

std::string written(std::vector<tensor> const& tensors, metadata_list const& metadata = {}) {
  temporary_directory const scratch;
  write_safetensors(scratch / "m", tensors, metadata);
  return read_file(scratch / "m");
}

} // namespace

TEST_CASE("safetensors: written tensors come back") {
  temporary_directory const scratch;
  std::vector<float> const a{1, 2, 3, 4, 5, 6};
  std::vector<double> const b{-1.5};
  std::vector<std::uint8_t> const c{7, 8, 9};
  std::vector<tensor> const tensors{{"odd", "U8", {3}, std::as_bytes(std::span(c))},
                                    {"block.w", "F32", {2, 3}, std::as_bytes(std::span(a))},
                                    {"none", "BF16", {4, 0}, {}},
                                    {"scalar é", "F64", {}, std::as_bytes(std::span(b))}};
  auto const path = scratch / "model.safetensors";
  write_safetensors(path, tensors, {{"format", "pt"}, {"step", "3"}});
  CHECK(scratch.entries() == 1);

  auto moved = safetensors_file::open(path);
  auto const file = std::move(moved);
  CHECK(file.metadata() == metadata_list{{"format", "pt"}, {"step", "3"}});
  REQUIRE(file.tensors().size() == 4);
  for (auto const& t : tensors) {
    auto const* found = file.find(t.name);
    REQUIRE(found);
    CHECK(found->dtype == t.dtype);
    CHECK(found->shape == t.shape);
    REQUIRE(found->bytes.size() == t.bytes.size());
    CHECK(std::equal(t.bytes.begin(), t.bytes.end(), found->bytes.begin()));
    if (!found->bytes.empty()) CHECK(reinterpret_cast<std::uintptr_t>(found->bytes.data()) % dtype_bytes(t.dtype) == 0);
  }
  CHECK(file.find("nothing") == nullptr);

  write_safetensors(path, {});
  auto const empty = safetensors_file::open(path);
  CHECK(empty.tensors().empty());
  CHECK(file.tensors()[0].name == "scalar é"); // A replaced file stays readable where it was open.
}

TEST_CASE("safetensors: the exact bytes") {
  std::uint8_t const value = 42;
  std::vector<tensor> const tensors{{"x", "U8", {1}, std::as_bytes(std::span(&value, 1))}};
  CHECK(written(tensors) ==
        with_header("{\"x\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [0, 1]}}    ", 1));
}

TEST_CASE("safetensors: what cannot be written is a sentence, and the file before stays") {
  temporary_directory const scratch;
  auto const path = scratch / "m";
  write_file(path, "before");
  std::vector<std::byte> const bytes(8);
  auto const refused = [&](std::vector<tensor> const& tensors) {
    auto const text = sentence([&] { write_safetensors(path, tensors); });
    CHECK(read_file(path) == "before");
    CHECK(scratch.entries() == 1);
    return text;
  };
  CHECK(refused({{"w", "F32", {3}, bytes}}) ==
        "the tensor 'w' has 8 bytes, but its dtype 'F32' and shape need 12; correct one of them");
  CHECK(refused({{"w", "F33", {2}, bytes}}) ==
        "the tensor 'w' has the unsupported dtype 'F33'; give another, such as F32");
  CHECK_FALSE(refused({{"w", "F32", {-2}, bytes}}).empty());
  CHECK_FALSE(refused({{"w", "F32", {INT64_MAX, INT64_MAX}, bytes}}).empty());
  CHECK(refused({{"w", "F64", {}, bytes}, {"w", "F64", {}, bytes}}) ==
        "the tensor name 'w' occurs twice; give every tensor its own name");
  CHECK(refused({{"__metadata__", "F64", {}, bytes}}) ==
        "the name '__metadata__' is reserved in a safetensors file; give the tensor another name");
  CHECK(sentence([&] {
          write_safetensors(scratch / "m", {}, {{"a", "1"}, {"b", "1"}, {"a", "2"}});
        }) == "the metadata key 'a' occurs twice; give each key one value");
  CHECK_FALSE(refused({{"\xff", "F64", {}, bytes}}).empty());
  CHECK(refused(std::vector<tensor>(safetensors_maximum_names + 1)) ==
        "a safetensors file of 131073 tensors and 0 metadata keys has too many names to be read; write at most 131072 "
        "of each to one file");
  CHECK(sentence([&] { write_safetensors(scratch / "no/such/m", {}); }) ==
        "'" + scratch / "no/such/m" +
            "' cannot be written (No such file or directory); create its directory or choose another path, and save "
            "again; the old content is unchanged");
}

TEST_CASE("safetensors: as many tensors as a file may have are written, and a second name at the end is found") {
  temporary_directory const scratch;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < safetensors_maximum_names; ++i) names.push_back("n" + std::to_string(i));
  std::vector<tensor> tensors;
  for (auto const& name : names) tensors.push_back({name, "U8", {0}, {}});
  auto const begin = std::chrono::steady_clock::now();
  write_safetensors(scratch / "m", tensors);
  tensors.back().name = tensors.front().name;
  CHECK(sentence([&] { write_safetensors(scratch / "m", tensors); }) ==
        "the tensor name 'n0' occurs twice; give every tensor its own name");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30)); // of all pairs: minutes
}

TEST_CASE("safetensors: files that are no files are sentences") {
  temporary_directory const scratch;
  CHECK(sentence([&] { safetensors_file::open(scratch / "x"); }) ==
        "the safetensors file '" + scratch / "x" + "' does not exist; check the path");
  CHECK(sentence([&] { safetensors_file::open(scratch.path); }) ==
        "the safetensors file '" + scratch.path.string() + "' is a directory; give the path of a file");
  CHECK_FALSE(sentence([&] { safetensors_file::open("/dev/null"); }).empty());
  write_file(scratch / "empty", "");
  CHECK_FALSE(sentence([&] { safetensors_file::open(scratch / "empty"); }).empty());
}

namespace {

std::string with_members(std::string const& members) { return "{\"x\":{" + members + "}}"; }
std::string with_fields(std::string const& dtype, std::string const& shape, std::string const& offsets) {
  return with_members("\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets);
}
std::string with_two(std::string const& a, std::string const& b) {
  return "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" + a +
         "},\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" + b + "}}";
}
std::string const good = with_fields("\"U8\"", "[4]", "[0,4]"), unclosed = good.substr(0, good.size() - 1);

struct bad {
  std::string file, part;
};
void all_refused(std::vector<bad> const& cases) {
  for (auto const& c : cases) {
    auto const text = refusal(c.file);
    CAPTURE(text);
    CAPTURE(c.part);
    CHECK(text.find(c.part) != std::string::npos);
  }
}

} // namespace

TEST_CASE("safetensors: null metadata and every dtype of whole bytes are read") {
  auto const null = with_header(unclosed + ",\"__metadata__\":null}", 4);
  auto const file = parse_safetensors(std::as_bytes(std::span(null)), "m");
  CHECK(file.tensors.size() == 1);
  CHECK(file.metadata.empty());
  CHECK(refusal(with_header("{\"__metadata__\":null,\"__metadata__\":{}}", 0)).find("occurs twice") !=
        std::string::npos);
  for (auto const* const dtype : {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"})
    CHECK(refusal(with_header(with_fields("\"" + std::string(dtype) + "\"", "[4]", "[0,4]"), 4)).empty());
  for (auto const* const dtype : {"F64", "I64", "U64", "C64"})
    CHECK(refusal(with_header(with_fields("\"" + std::string(dtype) + "\"", "[4]", "[0,32]"), 32)).empty());
}

TEST_CASE("safetensors: hostile headers are refused, each with its reason") {
  REQUIRE(refusal(with_header(good, 4)).empty());
  REQUIRE(refusal(with_header(with_two("[2,4]", "[0,2]"), 4)).empty());
  REQUIRE(refusal(with_header("{}", 0)).empty());
  CHECK(refusal(with_header("{", 0)) ==
        "'the header of m' cannot be read as JSON at byte 1: a member needs a name in quotes; correct it or write it "
        "again");
  all_refused({
      {"", "but a safetensors file has at least 8"},
      {"1234567", "but a safetensors file has at least 8"},
      {std::string(8, '\0'), "has a header that does not begin with '{'"},
      {with_header(good, 0, 1000), "declares a header of 1000 bytes, but has only "},
      {with_header(good, 4, UINT64_MAX), "declares a header of 18446744073709551615 bytes"},
      {with_header(good, 4, UINT64_MAX - 7), "declares a header of"},
      {with_header(good, 4, std::uint64_t{1} << 63), "declares a header of"},
      {with_header(good, 4, good.size() + 5), "declares a header of"},
      {with_header(good, 8, good.size() + 4), "there is more text after the end"},
      {with_header(good, 4, good.size() - 1), "cannot be read as JSON"},
      {with_header(" " + good, 4), "does not begin"},
      {with_header("[]", 0), "does not begin"},
      {with_header("{", 0), "cannot be read as JSON"},
      {with_header("{}{}", 0), "there is more text after the end"},
      {with_header("{\"x\":1}", 0), "where an object is needed"},
      {with_header("{\"x\":{}}", 0), "has no 'dtype'"},
      {with_header(with_members("\"dtype\":\"U8\""), 0), "has no 'shape'"},
      {with_header(with_members("\"dtype\":\"U8\",\"shape\":[]"), 0), "has no 'data_offsets'"},
      {with_header(with_fields("\"U8\"", "[]", "[0,1],\"more\":1"), 1), "has members other than"},
      {with_header(with_members("\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]"), 1),
       "occurs twice"},
      {with_header(unclosed + ",\"x\":" + good.substr(5), 4), "'x' occurs twice"},
      {with_header(unclosed + ",\"\\u0078\":" + good.substr(5), 4), "'x' occurs twice"},
      {with_header("{\"__metadata__\":[]}", 0), "where an object is needed"},
      {with_header("{\"__metadata__\":{\"a\":1}}", 0), "where a string is needed"},
      {with_header("{\"\xff\":1}", 0), "it is not UTF-8"},
      {with_header("{\"x\":" + std::string(100000, '['), 0), "where an object is needed"},
  });
}

TEST_CASE("safetensors: hostile dtypes and shapes are refused, each with its reason") {
  all_refused({
      {with_header(with_fields("\"F31\"", "[4]", "[0,4]"), 4), "unsupported dtype 'F31'"},
      {with_header(with_fields("\"\"", "[4]", "[0,4]"), 4), "unsupported dtype ''"},
      {with_header(with_fields("\"u8\"", "[4]", "[0,4]"), 4), "unsupported dtype 'u8'"},
      {with_header(with_fields("8", "[4]", "[0,4]"), 4), "where a string is needed"},
      {with_header(with_fields("true", "[4]", "[0,4]"), 4), "has a boolean at byte"},
      {with_header(with_fields("nope", "[4]", "[0,4]"), 4), "cannot be read as JSON at byte 14: an unknown word"},
      {with_header(with_fields("flase", "[4]", "[0,4]"), 4), "cannot be read as JSON at byte 14: an unknown word"},
      {with_header(with_fields("\"U8\"", "4", "[0,4]"), 4), "where an array is needed"},
      {with_header(with_fields("\"U8\"", "[\"4\"]", "[0,4]"), 4), "where a number is needed"},
      {with_header(with_fields("\"U8\"", "[-4]", "[0,4]"), 4), "where an extent of zero or more is needed"},
      {with_header(with_fields("\"U8\"", "[4.0]", "[0,4]"), 4), "where a 64-bit integer"},
      {with_header(with_fields("\"U8\"", "[9223372036854775808]", "[0,4]"), 4), "where a 64-bit integer"},
      {with_header(with_fields("\"U8\"", "[4294967296,4294967296]", "[0,4]"), 4), "a shape too large to count"},
      {with_header(with_fields("\"F64\"", "[2305843009213693953]", "[0,8]"), 8), "a shape too large to count"},
      {with_header(with_fields("\"U8\"", "[9223372036854775807,2,2]", "[0,4]"), 4), "a shape too large to count"},
      {with_header(with_fields("\"U8\"", "[5]", "[0,4]"), 4), "has 4 bytes, but its dtype and shape need 5"},
      {with_header(with_fields("\"F32\"", "[4]", "[0,4]"), 4), "has 4 bytes, but its dtype and shape need 16"},
      {with_header(with_fields("\"U8\"", "[0]", "[0,4]"), 4), "need 0"},
      {with_header(with_fields("\"U8\"", "[]", "[0,4]"), 4), "need 1"},
  });
}

TEST_CASE("safetensors: hostile offsets are refused, each with its reason") {
  all_refused({
      {with_header(with_fields("\"U8\"", "[4]", "[]"), 4), "where an array of two offsets is needed"},
      {with_header(with_fields("\"U8\"", "[4]", "[0]"), 4), "where an array of two offsets is needed"},
      {with_header(with_fields("\"U8\"", "[4]", "[0,4,4]"), 4), "where an array of two offsets is needed"},
      {with_header(with_fields("\"U8\"", "[4]", "{}"), 4), "where an array is needed"},
      {with_header(with_fields("\"U8\"", "[4]", "[-4,0]"), 4), "where an integer from 0"},
      {with_header(with_fields("\"U8\"", "[4]", "[4,0]"), 4),
       "begins at byte 4 of the data, but ends before that, at byte 0"},
      {with_header(with_fields("\"U8\"", "[4]", "[0,4]"), 3),
       "ends at byte 4 of the data, but the file has 3 bytes of data"},
      {with_header(with_fields("\"U8\"", "[4]", "[1,5]"), 4), "ends at byte 5 of the data, but the file has 4 bytes"},
      {with_header(with_fields("\"U8\"", "[4]", "[18446744073709551612,18446744073709551615]"), 4), "ends at byte"},
      {with_header(with_fields("\"U8\"", "[4]", "[0,18446744073709551616]"), 4), "where an integer from 0 to"},
      {with_header(with_fields("\"U8\"", "[4]", "[1,5]"), 5), "has unused bytes before it"},
      {with_header(good, 5), "has 1 byte after its last tensor"},
      {with_header("{}", 1), "has 1 byte after its last tensor"},
      {with_header(with_two("[0,2]", "[0,2]"), 2), "overlaps the tensor before it"},
      {with_header(with_two("[0,2]", "[1,3]"), 3), "overlaps the tensor before it"},
      {with_header(with_two("[0,2]", "[3,5]"), 5), "has unused bytes before it"},
  });
}

TEST_CASE("safetensors: a small file cut anywhere is refused, changed anywhere never does more than throw") {
  std::vector<float> const values{1, 2, 3};
  std::vector<tensor> const tensors{{"w", "F32", {3}, std::as_bytes(std::span(values))},
                                    {"v", "F32", {1, 1}, std::as_bytes(std::span(values).first(1))}};
  auto const bytes = written(tensors, {{"a", "b"}});
  REQUIRE(refusal(bytes).empty());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    CHECK_FALSE(refusal(bytes.substr(0, i)).empty());
    for (int bit = 0; bit < 8; ++bit) {
      auto changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      refusal(changed);
    }
  }
}
