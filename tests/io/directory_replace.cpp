#include "../sentence.hpp"
#include "saved_directory.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <dlfcn.h>
#include <filesystem>
#include <string>
#include <sys/resource.h>

// Which directories a saved run may replace, and what happens to all others.

using namespace constrain::test;

namespace {

int renames_that_fail = 0, renames_before = 0; // of calls of renameat: the first succeed, and then some fail

} // namespace

extern "C" int renameat(int from, char const* name, int to, char const* new_name) noexcept {
  if (renames_that_fail > 0 && renames_before-- <= 0) return --renames_that_fail, errno = EIO, -1;
  using function = int (*)(int, char const*, int, char const*);
  return reinterpret_cast<function>(::dlsym(RTLD_NEXT, "renameat"))(from, name, to, new_name);
}

TEST_CASE("directory: only what a commit made is replaced") {
  temporary_directory const scratch;
  auto const path = scratch / "mine";
  fs::create_directory(path);
  save(path, "in an empty directory");
  CHECK(load(path) == "in an empty directory");

  auto const refused = [&](std::string const& reason) {
    auto const before = content_of(scratch.path);
    CHECK(sentence([&] { save(path, "x"); }) ==
          "'" + path + "' " + reason + ", so saving there would lose it; move it away or choose another path");
    CHECK(content_of(scratch.path) == before);
    fs::remove_all(path);
  };
  write_file(path + "/manifest.json", "{}");
  refused("holds a manifest that cannot be read (" + sentence([&] { manifest::parse("{}", path + "/manifest.json"); }) +
          ")");
  write_file(path, "a file");
  refused("is a file");
  fs::create_directory(path);
  write_file(path + "/thesis.txt", "years of work");
  refused("holds files that this library did not save");
  CHECK_FALSE(sentence([] { directory_writer("/"); }).empty());
  CHECK_FALSE(sentence([] { directory_writer(""); }).empty());
  CHECK(sentence([] { directory_writer("/dev/null/x"); }) ==
        "the directory '/dev/null' cannot be created (File exists); remove it or choose another path");
}

TEST_CASE("directory: what somebody put into a checkpoint is kept beside it") {
  for (auto const how : {way::yes, way::no}) {
    temporary_directory const scratch;
    save(scratch / "c", "one", how);
    write_file(scratch / "c/notes.txt", "mine");
    fs::create_directory(scratch / "c/plots");
    write_file(scratch / "c/plots/loss.svg", "<svg/>");
    save(scratch / "c", "two", how);
    CHECK(load(scratch / "c") == "two");
    CHECK(scratch.entries() == 2);
    std::string kept;
    for (auto const& [name, content] : content_of(scratch.path))
      if (name.find(".kept-") != std::string::npos) kept += content;
    CHECK(kept == "mine<svg/>");
  }
}

TEST_CASE("directory: one that cannot be read is not taken for an empty one") {
  temporary_directory const scratch;
  write_file(scratch / "years of work", "text");
  constexpr auto owned = [](auto const& directory) {
    return constrain::io::detail::marked_files(directory, directory, "saved", directory.owner()).has_value();
  };
  constrain::io::detail::directory_handle const directory(scratch.path);
  REQUIRE(directory);
  rlimit old_limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &old_limit) == 0);
  rlimit const no_more{0, old_limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &no_more) == 0);
  bool const unread_is_owned = owned(directory);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &old_limit) == 0);
  CHECK_FALSE(unread_is_owned);
  CHECK_FALSE(owned(directory));
  fs::remove(scratch / "years of work");
  CHECK(owned(directory));
}

TEST_CASE("directory: a link is followed") {
  temporary_directory const scratch;
  save(scratch / "real", "one");
  fs::create_directory_symlink("real", scratch / "latest");
  save(scratch / "latest", "two");
  CHECK(fs::is_symlink(scratch / "latest"));
  CHECK(load(scratch / "real") == "two");
  CHECK(load(scratch / "latest") == "two");
  fs::create_directory_symlink("nowhere", scratch / "dangling");
  CHECK_FALSE(sentence([&] { save(scratch / "dangling", "x"); }).empty());
  CHECK_FALSE(sentence([&] { load(scratch / "dangling"); }).empty());
}

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

TEST_CASE("directory: there is nothing to read in a directory with only other files, the root directory included") {
  temporary_directory const scratch;
  write_file(scratch / "train.log", "mine");
  CHECK_FALSE(directory_reader::finds(scratch.path));
  CHECK_FALSE(directory_reader::finds("/"));
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

TEST_CASE("directory: a manifest that is too large is not read, and the error says so") {
  temporary_directory const scratch;
  auto const path = scratch / "c";
  save(path, "one");
  fs::resize_file(path + "/manifest.json", (std::uintmax_t{1} << 26) + 1);
  CHECK(sentence([&] { save(path, "two"); }) ==
        "'" + path + "' holds a manifest that cannot be read ('" + path +
            "/manifest.json' is not a readable regular file of the directory's owner with at most 64 MiB; use another "
            "copy), so saving there would lose it; move it away or choose another path");
  CHECK(fs::exists(path + "/state.json"));
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

TEST_CASE("directory: a link to a missing path without a name is a broken link") {
  for (auto const* target : {"nowhere/.", "nowhere/..", "nowhere/./"}) {
    temporary_directory const scratch;
    auto const path = scratch / "latest";
    fs::create_directory_symlink(target, path);
    CHECK_FALSE(directory_reader::finds(path));
    CHECK(sentence([&] { load(path); }) ==
          "the directory '" + path + "' cannot be opened (No such file or directory); check the path");
    CHECK(sentence([&] { directory_writer{path}; }).starts_with("'" + path + "' cannot be resolved ("));
    CHECK(scratch.entries() == 1);
  }
}

TEST_CASE("directory: a checkpoint without a mark, of an older version or copied, is replaced by its manifest") {
  for (auto const how : {way::yes, way::no}) {
    temporary_directory const scratch;
    save(scratch / "c", "one", how);
    fs::remove(scratch / "c/.constrain");
    save(scratch / "c", "two", how);
    CHECK(scratch.entries() == 1);
    fs::copy(scratch / "c", scratch / "copy");
    write_file(scratch / "copy/notes.txt", "mine");
    save(scratch / "copy", "three", how);
    CHECK(load(scratch / "copy") == "three");
    CHECK(load(scratch / "c") == "two");
    CHECK(scratch.entries() == 3); // with what is kept of the copy
    CHECK(content_of(scratch.path).size() == 7);
  }
}

TEST_CASE("directory: a file of a copy that its user has changed is kept beside it") {
  for (auto const how : {way::yes, way::no})
    for (std::string const changed : {"mine", "users"}) { // of another length, and of the same
      temporary_directory const scratch;
      save(scratch / "copy", "first", how);
      fs::remove(scratch / "copy/.constrain");
      write_file(scratch / "copy/weights.bin", changed);
      save(scratch / "copy", "second", how);
      CHECK(load(scratch / "copy") == "second");
      REQUIRE(scratch.entries() == 2);
      int found = 0;
      for (auto const& each : content_of(scratch.path)) found += each.second == changed ? 1 : 0;
      CHECK(found == 1);
    }
}

TEST_CASE("directory: the one that the process works in is not replaced, nor one that holds it") {
  temporary_directory const scratch;
  auto const before = std::filesystem::current_path();
  std::filesystem::create_directories(scratch / "outer/inner");
  std::filesystem::current_path(scratch / "outer/inner");
  for (std::string const path : {".", "..", "../../outer", "../inner/"}) {
    CAPTURE(path);
    auto const said = sentence([&] { constrain::io::directory_writer{path}; });
    CHECK(said.find("is the working directory or contains it") != std::string::npos);
  }
  CHECK(sentence([&] { constrain::io::directory_writer{"below"}; }).empty());
  std::filesystem::current_path(before);
}
