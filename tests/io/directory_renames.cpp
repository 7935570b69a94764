#include "../sentence.hpp"
#include "saved_directory.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <dlfcn.h>
#include <filesystem>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

// Saves that replace a directory by two renames, and stop between them or fail.

using namespace constrain::test;

namespace {

int renames_that_fail = 0, renames_before = 0; // of calls of renameat: the first succeed, and then some fail
int killed_at = 0;                             // this call of renameat or unlinkat kills the process; 0: none

void may_kill() {
  if (killed_at > 0 && --killed_at == 0) ::kill(::getpid(), SIGKILL);
}

} // namespace

extern "C" int unlinkat(int directory, char const* name, int flags) noexcept {
  may_kill();
  using function = int (*)(int, char const*, int);
  return reinterpret_cast<function>(::dlsym(RTLD_NEXT, "unlinkat"))(directory, name, flags);
}

extern "C" int renameat(int from, char const* name, int to, char const* new_name) noexcept {
  may_kill();
  if (renames_that_fail > 0 && renames_before-- <= 0) return --renames_that_fail, errno = EIO, -1;
  using function = int (*)(int, char const*, int, char const*);
  return reinterpret_cast<function>(::dlsym(RTLD_NEXT, "renameat"))(from, name, to, new_name);
}

namespace {

/// Saves "two" in another process, which call number `at` of renameat and unlinkat kills. Returns whether it was
/// killed; false: the save made fewer calls.
bool kills_save(int at, std::string const& path, way how) {
  auto const child = ::fork();
  if (child == 0) {
    killed_at = at;
    save(path, "two", how);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) CHECK(WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status);
}

} // namespace

TEST_CASE("directory: a stop between the two renames loses nothing") {
  temporary_directory const scratch;
  auto const path = scratch / "c";
  save(path, "one", way::no);
  fs::rename(path, scratch / ".c.previous");
  CHECK(load(path) == "one");
  { directory_writer w(path, way::no); }
  CHECK(load(path) == "one");
  CHECK(scratch.entries() == 1);

  // ... and one after both, before the old one was removed.
  fs::copy(path, scratch / "new");
  fs::rename(path, scratch / ".c.previous");
  fs::rename(scratch / "new", path);
  save(path, "two", way::no);
  CHECK(load(path) == "two");
  CHECK(scratch.entries() == 1);
}

TEST_CASE("directory: what an interrupted removal leaves of the old directory is not restored") {
  for (int at = 1, was_killed = 1; was_killed != 0; ++at) {
    CAPTURE(at);
    temporary_directory const scratch;
    auto const path = scratch / "c";
    save(path, "one", way::no);
    was_killed = kills_save(at, path, way::no) ? 1 : 0;
    if (!fs::exists(path)) continue; // between the two renames
    fs::rename(path, scratch / "moved");
    { directory_writer w(path, way::no); }
    if (fs::exists(path)) CHECK(load(path) == "one"); // before anything was removed
  }
}

TEST_CASE("directory: after a stop between the two renames, an empty directory at the path hides nothing") {
  temporary_directory const scratch;
  auto const path = scratch / "c";
  fs::create_directory_symlink("c", scratch / "latest");
  for (auto const* name : {"c", "latest"})
    for (auto const how : {way::yes, way::no}) {
      save(path, "one", how);
      fs::rename(path, scratch / ".c.previous");
      fs::create_directory(path); // as by `mkdir -p c`
      CHECK(directory_reader::finds(scratch / name));
      CHECK(load(scratch / name) == "one");
      { directory_writer w(scratch / name, how); }
      CHECK(load(path) == "one");
      CHECK(scratch.entries() == 2);
      save(scratch / name, "two", how);
      CHECK(load(path) == "two");
      CHECK(scratch.entries() == 2);
    }
}

TEST_CASE("directory: after a stop between the two renames, a refused save keeps the old directory") {
  for (std::string const file : {"/train.log", ""}) { // in a directory, or at its path
    temporary_directory const scratch;
    auto const path = scratch / "c";
    save(path, "one", way::no);
    fs::rename(path, scratch / ".c.previous");
    if (!file.empty()) fs::create_directory(path);
    write_file(path + file, "mine");
    CHECK(directory_reader::finds(path));
    if (!file.empty()) CHECK(load(path) == "one");
    else CHECK(sentence([&] { load(path); }) == "'" + path + "' is not a directory; give the directory that was saved");
    for (auto const how : {way::yes, way::no})
      CHECK(sentence([&] { save(path, "two", how); }) ==
            "'" + path + "' " + (file.empty() ? "is a file" : "holds files that this library did not save") +
                ", so saving there would lose it; move it away or choose another path");
    CHECK(read_file(path + file) == "mine");
    fs::rename(path, scratch / "away");
    CHECK(load(path) == "one");
    { directory_writer w(path, way::no); }
    CHECK(load(path) == "one");
    CHECK(scratch.entries() == 2);
  }
}

TEST_CASE("directory: after a stop between the two renames, no manifest hides the old directory from a later save") {
  for (auto const how : {way::yes, way::no}) {
    temporary_directory const scratch;
    auto const path = scratch / "c", previous = scratch / ".c.previous";
    save(path, "one", way::no);
    fs::copy(path, scratch / "copy");
    fs::rename(path, previous);
    fs::create_directory(path);
    write_file(path + "/manifest.json", "{\"name\": \"a web app\"}");
    auto const said = sentence([&] { save(path, "two", how); });
    CHECK(said.starts_with("'" + path + "' holds a manifest that cannot be read ("));
    CHECK(load(previous) == "one");

    // A damaged copy of the old directory, which may be replaced, but not before a new one is complete.
    fs::remove_all(path);
    fs::rename(scratch / "copy", path);
    fs::remove(path + "/weights.bin");
    { directory_writer w(path, how); }
    CHECK(load(previous) == "one");
    save(path, "two", how);
    CHECK(load(path) == "two");
    CHECK(scratch.entries() == 1);
  }
}

TEST_CASE("directory: beside an old directory at '.previous', a save killed at any call loses nothing") {
  for (auto const how : {way::yes, way::no})
    for (int at = 1;; ++at) {
      CAPTURE(at);
      temporary_directory const scratch;
      auto const path = scratch / "c", previous = scratch / ".c.previous";
      save(path, "one", way::no);
      fs::copy(path, scratch / "copy");
      fs::rename(path, previous);
      fs::rename(scratch / "copy", path);
      fs::remove(path + "/weights.bin");
      bool const is_killed = kills_save(at, path, how);
      bool const is_new = fs::exists(path) && read_file(path + "/state.json") == "two";
      CHECK(load(is_new ? path : previous) == (is_new ? "two" : "one"));
      save(path, "three", how);
      CHECK(load(path) == "three");
      CHECK_FALSE(fs::exists(previous));
      for (auto const& entry : fs::directory_iterator(scratch.path)) // what a killed save left is kept at most
        CHECK(entry.path().filename().string().starts_with("c"));
      if (!is_killed) {
        CHECK(at > (how == way::yes ? 7 : 9));
        break;
      }
    }
}

TEST_CASE("directory: beside a copied directory and an older '.previous', a save killed at any call loses nothing") {
  for (auto const how : {way::yes, way::no})
    for (int at = 1;; ++at) {
      CAPTURE(at);
      temporary_directory const scratch;
      auto const path = scratch / "c";
      save(path, "one", way::no);
      fs::rename(path, scratch / ".c.previous");
      save(scratch / "newer", "newer", way::no);
      fs::copy(scratch / "newer", path); // without a valid mark
      fs::remove_all(scratch / "newer");
      bool const is_killed = kills_save(at, path, how);
      bool const is_new = fs::exists(path) && read_file(path + "/state.json") == "two";
      CHECK(load(path) == (is_new ? "two" : "newer"));
      save(path, "three", how);
      CHECK(load(path) == "three");
      CHECK(scratch.entries() == 1);
      if (!is_killed) {
        CHECK(at > (how == way::yes ? 7 : 9));
        break;
      }
    }
}

TEST_CASE("directory: the error of a failed rename says where the old content is beside a '.previous'") {
  for (int const failures : {1, 2}) {
    temporary_directory const scratch;
    auto const path = scratch / "c", previous = scratch / ".c.previous";
    save(path, "one", way::no);
    fs::copy(path, scratch / "copy");
    fs::rename(path, previous);
    fs::rename(scratch / "copy", path);
    fs::remove(path + "/weights.bin");
    renames_before = 2, renames_that_fail = failures; // after the attempt to restore the old directory
    auto const said = sentence([&] { save(path, "two", way::no); });
    CHECK(renames_that_fail == 0);
    CHECK(load(previous) == "one");
    CHECK(fs::exists(path) == (failures == 1));
    std::string where = "the old content is unchanged";
    for (auto const& entry : fs::directory_iterator(scratch.path))
      if (auto const kept = entry.path().string(); kept.starts_with(path + ".kept-")) {
        CHECK(read_file(kept + "/state.json") == "one");
        where = "the old content is in '" + kept + "', from which no save restores it; rename that directory to '" +
                path + "'";
      }
    CHECK(said ==
          "'" + path + "' cannot be put in place (Input/output error); choose another path and save again; " + where);
    CHECK((where.size() > 40) == (failures == 2));
  }
}

TEST_CASE("directory: what the error of a failed rename says of the old content is so") {
  for (int const failures : {1, 2}) {
    temporary_directory const scratch;
    auto const path = scratch / "c";
    save(path, "one", way::no);
    renames_before = 1, renames_that_fail = failures;
    CHECK(sentence([&] { save(path, "two", way::no); }) ==
          "'" + path + "' cannot be put in place (Input/output error); choose another path and save again; the old " +
              (failures == 1 ? "content is unchanged"
                             : "content is in '" + scratch / ".c.previous" + "', from which the next save to '" + path +
                                   "' restores it"));
    CHECK(renames_that_fail == 0);
    CHECK(fs::exists(path) == (failures == 1));
    CHECK(load(path) == "one");
    save(path, "three", way::no);
    CHECK(load(path) == "three");
    CHECK(scratch.entries() == 1);
  }
}

TEST_CASE("directory: the error of a failed rename says what to do with old content that no save restores") {
  temporary_directory const scratch;
  auto const path = scratch / "c", previous = scratch / ".c.previous";
  save(path, "one", way::no);
  write_file(path + "/.constrain", "mine"); // not a mark, and no mark can be written in its place
  renames_before = 1, renames_that_fail = 2;
  CHECK(sentence([&] { save(path, "two", way::no); }) ==
        "'" + path +
            "' cannot be put in place (Input/output error); choose another path and save again; the old content is "
            "in '" +
            previous + "', from which no save restores it; rename that directory to '" + path + "'");
  { directory_writer w(path, way::no); }
  CHECK_FALSE(fs::exists(path));
  CHECK(load(path) == "one"); // readers find it
  fs::rename(previous, path);
  save(path, "three", way::no);
  save(path, "four", way::no);
  CHECK(load(path) == "four");
  CHECK(scratch.entries() == 2); // with the user's file, which is kept
}

TEST_CASE("directory: a stop between the two renames loses nothing behind a link") {
  for (auto const* target : {"real/c", "real/../real/c/", "other"}) {
    temporary_directory const scratch;
    fs::create_directory(scratch / "real");
    fs::create_directory_symlink(scratch / "real/c", scratch / "other");
    fs::create_directory_symlink(target, scratch / "latest");
    save(scratch / "real/c", "one", way::no);
    fs::rename(scratch / "real/c", scratch / "real/.c.previous");
    for (auto const* path : {"latest", "latest/"}) {
      CHECK(directory_reader::finds(scratch / path));
      CHECK(load(scratch / path) == "one");
    }
    { directory_writer w(scratch / "latest", way::no); }
    CHECK(load(scratch / "real/c") == "one");
    save(scratch / "latest", "two", way::no);
    CHECK(load(scratch / "latest") == "two");
    CHECK(fs::is_symlink(scratch / "latest"));
    CHECK_FALSE(fs::exists(scratch / "real/.c.previous"));
  }
  temporary_directory const scratch;
  fs::create_directory_symlink("loop", scratch / "loop");
  fs::create_directory_symlink("nowhere", scratch / "dangling");
  for (auto const* path : {"loop", "dangling"}) {
    CHECK_FALSE(directory_reader::finds(scratch / path));
    CHECK(sentence([&] {
            directory_writer(scratch / path);
          }).starts_with("'" + scratch / path + "' cannot be resolved ("));
  }
}

TEST_CASE("directory: a broken link stays one beside a '.previous' that no save restores") {
  temporary_directory const scratch;
  auto const path = scratch / "latest", previous = scratch / ".c.previous";
  fs::create_directory_symlink("c", path);
  auto const refused = [&] {
    auto const before = content_of(scratch.path);
    CHECK(sentence([&] { save(path, "x"); }).starts_with("'" + path + "' cannot be resolved ("));
    CHECK(content_of(scratch.path) == before);
    CHECK(scratch.entries() == 2);
    fs::remove_all(previous);
  };
  write_file(previous, "a file");
  refused();
  fs::create_directory(previous);
  write_file(previous + "/thesis.txt", "years of work");
  refused();
  save(scratch / "other", "one"); // its mark is of another name
  fs::rename(scratch / "other", previous);
  refused();
}
