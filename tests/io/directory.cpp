#include "../sentence.hpp"
#include "saved_directory.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <stdexcept>
#include <string>

using namespace constrain::test;

TEST_CASE("directory: what is committed is read, and replaced whole") {
  for (auto const how : {way::yes, way::no}) {
    temporary_directory const scratch;
    auto const path = scratch / "run/deep/checkpoint";
    save(path, "one", how);
    CHECK(load(path) == "one");
    directory_reader const old(path);
    save(path, "two", how);
    CHECK(load(path) == "two");
    CHECK(old.text("weights.bin") == "one");
    CHECK(content_of(scratch.path).size() == 3);
    CHECK(fs::exists(path + "/manifest.json"));
    save(path + "/", "three", how);
    CHECK(load(path) == "three");
    CHECK(old.contains("weights.bin"));
    CHECK(sentence([&] { old.bytes("other"); }) == "'" + path +
                                                       "' has no file 'other'; use a directory saved with "
                                                       "that file");
  }
}

TEST_CASE("directory: the manifest is for people, too") {
  temporary_directory const scratch;
  save(scratch / "c", "123456789");
  CHECK(read_file(scratch / "c/manifest.json").starts_with(R"({
  "format": "constrain directory",
  "version": 1,
  "files": {
    "state.json": {"bytes": 9, "crc32c": "e3069283"},
    "weights.bin": {"bytes": 9, "crc32c": "e3069283"}
  },
  "crc32c": ")"));
}

TEST_CASE("directory: without a commit nothing is left") {
  temporary_directory const scratch;
  auto const path = scratch / "c";
  {
    directory_writer w(path);
    w.write("a", "x");
  }
  CHECK(scratch.entries() == 0);
  save(path, "one");
  {
    directory_writer w(path);
    w.write("a", "x");
    CHECK(scratch.entries() == 2);
    CHECK_THROWS_AS(w.write("b", [](output_file&) { throw std::runtime_error("the caller's"); }), std::runtime_error);
    CHECK(scratch.entries() == 1);
    CHECK(sentence([&] { w.write("b", "x"); }) == "'" + path + "' has no save in progress; begin a new one");
    CHECK(sentence([&] { w.commit(); }) == "'" + path + "' has no save in progress; begin a new one");
  }
  CHECK(load(path) == "one");
}

TEST_CASE("directory: file names cannot be paths, hidden, taken or the manifest") {
  temporary_directory const scratch;
  directory_writer w(scratch / "c");
  w.write("a", "x");
  auto const rest = "' cannot name a file in '" + scratch / "c" +
                    "'; give a new name, other than manifest.json, of 1 to 128 letters, digits, '.', '_' and '-' that "
                    "does not begin with '.'";
  for (std::string const name : {"", ".", "..", "../a", "a/b", "/a", ".a", "a b", "\xc3\xa9", "manifest.json", "a"})
    CHECK(sentence([&] { w.write(name, "y"); }) == "'" + name + rest);
  CHECK(sentence([&] { w.write("a\n", "y"); }) == "'a?" + rest);
  CHECK_FALSE(sentence([&] { w.write(std::string(129, 'a'), "y"); }).empty());
  w.commit();
  directory_reader const r(scratch / "c");
  CHECK(r.text("a") == "x");
}
