#include <doctest/doctest.h>

#include <climits>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>

#include "../sentence.hpp"
#include "../temporary_directory.hpp"
#include "constrain/io/crc32c.hpp"
#include "constrain/io/directory_reader.hpp"
#include "constrain/io/directory_writer.hpp"

using namespace constrain::io;
using namespace constrain::test;
namespace fs = std::filesystem;

namespace {

void save(std::string const& path, std::string const& content) {
  directory_writer w(path);
  w.write("state.json", content);
  w.write("weights.bin", std::as_bytes(std::span(content)));
  w.commit();
}

std::string load(std::string const& path) {
  directory_reader const r(path);
  return std::string(r.text("state.json"));
}

} // namespace

TEST_CASE("directory: reading what is not one is a sentence") {
  temporary_directory const scratch;
  auto const path = scratch / "c";
  CHECK(sentence([&] { load(path); }) ==
        "the directory '" + path +
            "' cannot be opened (No such file or directory); check the path and its permissions");
  write_file(path, "x");
  CHECK(sentence([&] { load(path); }) == "'" + path + "' is not a directory; give the directory that was saved");
  fs::remove(path);
  fs::create_directory(path);
  CHECK(sentence([&] { load(path); }) ==
        "'" + path +
            "' has no manifest.json, so it is not a complete saved directory; use another copy or another directory");
  fs::create_directory(path + "/manifest.json");
  CHECK(sentence([&] { load(path); }) ==
        "the manifest '" + path + "/manifest.json' is a directory; give the path of a file");
}

TEST_CASE("directory: a manifest that may exist is not called missing") {
  temporary_directory const scratch;
  auto path = scratch / "c";
  save(path, "content");
  while (path.size() + 2 < PATH_MAX) path += "/."; // the same directory, but no name fits behind it
  auto const said = sentence([&] { load(path); });
  CHECK(said.starts_with("the manifest '"));
  CHECK(said.ends_with("/manifest.json' cannot be opened (File name too long); check the path and its permissions"));
}

TEST_CASE("directory: each kind of damage has its sentence") {
  temporary_directory const scratch;
  auto const path = scratch / "c", file = path + "/state.json";
  save(path, "content");
  fs::remove(file);
  CHECK(sentence([&] { load(path); }) == "the saved file '" + file + "' does not exist; check the path");
  write_file(file, "conten");
  CHECK(sentence([&] { load(path); }) ==
        "'" + file + "' has 6 bytes, but was saved with 7; use another copy of the directory");
  write_file(file, "Content");
  CHECK(sentence([&] { load(path); }) ==
        "'" + file + "' was changed after it was saved; use another copy of the directory");
}

TEST_CASE("directory: hostile manifests are refused") {
  auto const refusal = [](std::string const& body) {
    auto const sum = crc32c{}.update(std::as_bytes(std::span(body))).value();
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", sum);
    return sentence([&] { manifest::parse(body + ",\n  \"crc32c\": \"" + digits + "\"\n}\n", "m"); });
  };
  auto const with = [&](std::string const& files) {
    return refusal("{\"format\": \"constrain directory\", \"version\": 1, \"files\": " + files);
  };
  auto const named = [&](std::string const& name, std::string const& rest) {
    return with("{\"" + name + "\": " + rest + "}");
  };
  std::string const good = "{\"bytes\": 1, \"crc32c\": \"00000000\"}";
  CHECK(with("{}").empty());
  CHECK(named("a", good).empty());
  for (std::string const name : {"../a", "/etc/passwd", "", ".", "a/b", "manifest.json"})
    CHECK(named(name, good) == "'m' lists a file with the invalid name '" + name + "'; use another copy");
  CHECK(named("a", good + ", \"a\": " + good).find("the name 'a' occurs twice in one object") != std::string::npos);
  for (std::string const files : {"[]", "1", "null"}) CHECK_FALSE(with(files).empty());
  for (std::string const file :
       {"1", "{}", "{\"bytes\": 1}", "{\"crc32c\": \"00000000\"}", "{\"bytes\": -1, \"crc32c\": \"00000000\"}",
        "{\"bytes\": 1.5, \"crc32c\": \"00000000\"}", "{\"bytes\": \"1\", \"crc32c\": \"00000000\"}",
        "{\"bytes\": 1, \"crc32c\": 0}", "{\"bytes\": 1, \"crc32c\": \"0000000\"}",
        "{\"bytes\": 1, \"crc32c\": \"0000000A\"}", "{\"bytes\": 1, \"crc32c\": \"zzzzzzzz\"}"})
    CHECK_FALSE(named("a", file).empty());
  CHECK(refusal("{\"format\": \"constrain directory\", \"version\": 2, \"files\": {}") ==
        "'m' has version 2, but this library reads version 1; use the library version that wrote it");
  CHECK(refusal("{\"format\": \"other\", \"version\": 1, \"files\": {}") ==
        "'m' does not have the format 'constrain directory'; give a directory that this library wrote");
  std::string const unsealed = "{\"format\": \"constrain directory\", \"version\": 1, \"files\": {}}";
  CHECK(sentence([&] { manifest::parse(unsealed, "m"); }) == "'m' was changed after it was written; use another copy");
}

TEST_CASE("directory: cut short at any byte, or with any one bit changed, it is refused") {
  temporary_directory const scratch;
  auto const path = scratch / "c";
  save(path, "{\"step\": 3}");
  for (std::string const name : {"manifest.json", "state.json", "weights.bin"}) {
    auto const file = path + "/" + name, content = read_file(file);
    CAPTURE(name);
    for (std::size_t i = 0; i < content.size(); ++i) {
      CAPTURE(i);
      write_file(file, content.substr(0, i));
      CHECK_FALSE(sentence([&] { load(path); }).empty());
      for (int bit = 0; bit < 8; ++bit) {
        auto changed = content;
        changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
        write_file(file, changed);
        CHECK_FALSE(sentence([&] { load(path); }).empty());
      }
    }
    for (char const more : {' ', '\n', 'x', '\0'}) {
      write_file(file, content + more);
      CHECK_FALSE(sentence([&] { load(path); }).empty());
    }
    fs::remove(file);
    CHECK_FALSE(sentence([&] { load(path); }).empty());
    write_file(file, content);
    CHECK(load(path) == "{\"step\": 3}");
  }
}
