#include "../sentence.hpp"
#include "saved_directory.hpp"

#include <constrain/io/atomic_file.hpp>
#include <doctest/doctest.h>

#include <cerrno>
#include <dlfcn.h>
#include <fcntl.h>
#include <string>

// Calls of fsync that are interrupted or fail.

using namespace constrain::test;

namespace {

int spoiled_at = 0;      // this call of fsync does nothing and returns `given_error`; 0: none
int given_error = EINTR; // an error number
int calls_of_fsync = 0;  // since it was last set to 0

} // namespace

extern "C" int fsync(int file) {
  if (++calls_of_fsync == spoiled_at) return errno = given_error, -1;
  return reinterpret_cast<int (*)(int)>(::dlsym(RTLD_NEXT, "fsync"))(file);
}

TEST_CASE("sync_to_disk: an interrupted call is repeated, a failed one is not") {
  descriptor const directory(::open(".", O_RDONLY | O_DIRECTORY));
  REQUIRE(directory);
  spoiled_at = 1;
  auto const syncs = [&](int error) { return calls_of_fsync = 0, given_error = error, sync_to_disk(directory); };
  CHECK(syncs(EINTR));
  CHECK(calls_of_fsync == 2);
  CHECK_FALSE(syncs(EIO));
  CHECK(errno == EIO);
  CHECK(calls_of_fsync == 1);
  CHECK(syncs(EINVAL));
  CHECK(calls_of_fsync == 1);
  spoiled_at = 0;
}

TEST_CASE("directory: no interrupted fsync ends a save") {
  given_error = EINTR;
  for (auto const how : {way::yes, way::no}) {
    temporary_directory const scratch;
    auto const path = scratch / "c";
    save(path, "old", how);
    for (spoiled_at = 1;; ++spoiled_at) {
      CAPTURE(spoiled_at);
      calls_of_fsync = 0;
      CHECK(sentence([&] { save(path, std::to_string(spoiled_at), how); }).empty());
      CHECK(load(path) == std::to_string(spoiled_at));
      if (calls_of_fsync < spoiled_at) break;
    }
    CHECK(spoiled_at > 5); // two files, the manifest, the mark and the directories
    spoiled_at = 0;
  }
}

TEST_CASE("atomic_file: no interrupted fsync ends a save") {
  given_error = EINTR;
  temporary_directory const scratch;
  for (spoiled_at = 1; spoiled_at <= 2; ++spoiled_at) { // of the file, of its directory
    CAPTURE(spoiled_at);
    calls_of_fsync = 0;
    atomic_file file(scratch / "x.txt");
    file.out().write(std::to_string(spoiled_at));
    CHECK(sentence([&] { file.commit(); }).empty());
    CHECK(read_file(scratch / "x.txt") == std::to_string(spoiled_at));
    CHECK(calls_of_fsync == 3);
  }
  spoiled_at = 0;
}
