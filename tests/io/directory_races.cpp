#include "saved_directory.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <dirent.h>
#include <dlfcn.h>
#include <functional>
#include <string>
#include <sys/mman.h>
#include <sys/types.h>
#include <utility>

// Saves that replace a directory while it is read.

using namespace constrain::test;

namespace {

std::function<void()> before_mapping, before_listing; // of a file, of a directory that is open: once

} // namespace

extern "C" __attribute__((no_sanitize("address"))) void* mmap(void* address, std::size_t length, int protection,
                                                              int flags, int file, off_t offset) noexcept {
  if (file >= 0 && before_mapping) std::exchange(before_mapping, {})();
  using function = void* (*)(void*, std::size_t, int, int, int, off_t);
  return reinterpret_cast<function>(::dlsym(RTLD_NEXT, "mmap"))(address, length, protection, flags, file, offset);
}

extern "C" DIR* fdopendir(int directory) {
  if (before_listing) std::exchange(before_listing, {})();
  return reinterpret_cast<DIR* (*)(int)>(::dlsym(RTLD_NEXT, "fdopendir"))(directory);
}

TEST_CASE("directory: a reader whose manifest a save replaces reads the new directory") {
  for (auto const how : {way::yes, way::no}) {
    temporary_directory const scratch;
    auto const path = scratch / "c";
    save(path, "one", how);
    before_mapping = [&] { save(path, "two", how); }; // the manifest is open, and the other files are not
    CHECK(load(path) == "two");
    CHECK_FALSE(before_mapping);
    before_mapping = [&] { fs::rename(path, scratch / ".c.previous"); }; // a save between its two renames
    CHECK(load(path) == "two");
  }
}

TEST_CASE("directory: a directory that a save replaces is found, although the files of the old one are gone") {
  for (auto const how : {way::yes, way::no}) {
    temporary_directory const scratch;
    auto const path = scratch / "c";
    save(path, "one", how);
    before_listing = [&] { save(path, "two", how); };
    CHECK(directory_reader::finds(path));
    CHECK_FALSE(before_listing);
  }
}
