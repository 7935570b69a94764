#include "../sentence.hpp"
#include "../temporary_directory.hpp"

#include <constrain/io/mapped_file.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <vector>

// Files that cannot be mapped: the advice depends on the reason.

using namespace constrain::test;
using constrain::io::descriptor;
using constrain::io::mapped_file;

TEST_CASE("a file that is not open for reading is no fault of the disk") {
  temporary_directory const directory;
  auto const path = directory / "file";
  write_file(path, "content");
  descriptor const file(::open(path.c_str(), O_WRONLY));
  CHECK(sentence([&] { mapped_file(file, path, "the file"); }) ==
        "the file '" + path + "' cannot be read (Permission denied); check the permissions");
}

TEST_CASE("a full address space is no fault of the disk") {
  temporary_directory const directory;
  auto const path = directory / "file";
  write_file(path, "content");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 42); // sparse
  std::vector<mapped_file> files;
  CHECK(sentence([&] {
          while (files.size() < 1 << 15) files.emplace_back(path);
        }) == "the file '" + path +
                  "' cannot be read (Cannot allocate memory); free memory or raise the limit on it (ulimit -v)");
}

TEST_CASE("a file on a file system without mappings is no fault of the disk") {
  std::string const path = "/sys/devices/system/cpu/online";
  if (!std::filesystem::exists(path)) return;
  CHECK(sentence([&] { mapped_file{path}; }) ==
        "the file '" + path + "' cannot be read (No such device); copy it to a file system that can map files");
}
