#include "../sentence.hpp"
#include "saved_directory.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

// Which directories a saved run may replace, and what happens to all others.

using namespace constrain::test;

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
  refused("holds a manifest that cannot be read ('" + path +
          "/manifest.json' does not have the format 'constrain directory')");
  write_file(path, "a file");
  refused("is a file");
  fs::create_directory(path);
  write_file(path + "/thesis.txt", "years of work");
  refused("holds files that this library did not save");
  CHECK_FALSE(sentence([] { directory_writer("/"); }).empty());
  CHECK_FALSE(sentence([] { directory_writer(""); }).empty());
  CHECK(sentence([] { directory_writer("/dev/null/x"); }) ==
        "'/dev/null' cannot be created as a directory (File exists); remove it or choose another path");
}

TEST_CASE("directory: one that holds saved directories is not replaced") {
  temporary_directory const scratch;
  save(scratch / "run/step-3", "three");
  CHECK(sentence([&] { save(scratch / "run", "x"); }) ==
        "'" + (scratch / "run") +
            "' holds the saved run 'step-3', so saving there would lose that run; choose another path or, if '" +
            (scratch / "run") + "' is the .directory of `fit`, set .keep_last, which saves beside 'step-3'");
  CHECK(load(scratch / "run/step-3") == "three");
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

TEST_CASE("directory: a save without file descriptors says so, and not that the old content cannot be read") {
  temporary_directory const scratch;
  auto const path = scratch / "c";
  save(path, "one");
  fs::create_directory(scratch / "empty");
  constrain::io::detail::directory_handle const parent(scratch.path);
  REQUIRE(parent);
  rlimit old_limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &old_limit) == 0);
  for (std::string const name : {"c", "empty"})
    for (int free = 0; free < 2; ++free) {
      // A new descriptor has the lowest free number.
      auto const next = static_cast<rlim_t>(::dup(parent.get()));
      ::close(static_cast<int>(next));
      rlimit const few{next + static_cast<rlim_t>(free), old_limit.rlim_max};
      REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
      auto const said =
          sentence([&] { constrain::io::detail::check_replaceable(parent, name, parent.owner(), scratch / name); });
      REQUIRE(::setrlimit(RLIMIT_NOFILE, &old_limit) == 0);
      CHECK(said == "'" + (scratch / name) +
                        "' cannot be saved (Too many open files); close other files or choose another path");
    }
  CHECK(load(path) == "one");
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

TEST_CASE("directory: there is nothing to read in a directory with only other files, the root directory included") {
  temporary_directory const scratch;
  write_file(scratch / "train.log", "mine");
  CHECK_FALSE(directory_reader::finds(scratch.path));
  CHECK_FALSE(directory_reader::finds("/"));
}

TEST_CASE("directory: a manifest that is too large is not read, and the error says so") {
  temporary_directory const scratch;
  auto const path = scratch / "c";
  save(path, "one");
  fs::resize_file(path + "/manifest.json", (std::uintmax_t{1} << 26) + 1);
  CHECK(sentence([&] { save(path, "two"); }) ==
        "'" + path + "' holds a manifest that cannot be read ('" + path +
            "/manifest.json' is not a readable regular file of the directory's owner with at most 64 MiB), so "
            "saving there would lose it; move it away or choose another path");
  CHECK(fs::exists(path + "/state.json"));
}

TEST_CASE("directory: a link to a missing path without a name is a broken link") {
  for (auto const* target : {"nowhere/.", "nowhere/..", "nowhere/./"}) {
    temporary_directory const scratch;
    auto const path = scratch / "latest";
    fs::create_directory_symlink(target, path);
    CHECK_FALSE(directory_reader::finds(path));
    CHECK(sentence([&] { load(path); }) ==
          "the directory '" + path +
              "' cannot be opened (No such file or directory); check the path and its permissions");
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
