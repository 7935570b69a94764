#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "../sentence.hpp"
#include "../temporary_directory.hpp"
#include "constrain/io/crc32c.hpp"
#include "constrain/io/directory_reader.hpp"
#include "constrain/io/directory_writer.hpp"

using namespace constrain::io;
using namespace constrain::test;
namespace fs = std::filesystem;

namespace {

using way = directory_writer::exchange;

void save(std::string const& path, std::string const& content, way how = way::yes) {
  directory_writer w(path, how);
  w.write("state.json", content);
  w.write("weights.bin", [&](output_file& out) {
    for (char const c : content) out.write(std::string_view(&c, 1));
  });
  w.commit();
}

std::string load(std::string const& path) {
  directory_reader const r(path);
  CHECK(r.text("state.json") == r.text("weights.bin"));
  return std::string(r.text("state.json"));
}

/// Without the marks, each of which names its own directory.
std::map<std::string, std::string> content_of(fs::path const& directory) {
  std::map<std::string, std::string> files;
  for (auto const& entry : fs::recursive_directory_iterator(directory))
    if (entry.is_regular_file() && entry.path().filename() != ".constrain")
      files[entry.path().lexically_relative(directory).string()] = read_file(entry.path());
  return files;
}

struct small_disk {
  fs::path path;
  bool mounted;
  explicit small_disk(fs::path const& path)
      : path(path), mounted(::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=512k") == 0) {}
  ~small_disk() {
    if (mounted) ::umount2(path.c_str(), MNT_DETACH);
  }
};

/// No file may grow beyond `bytes` during its life: writing more fails as on a full disk, on every machine.
struct file_limit {
  rlimit before{};
  void (*handler)(int);
  explicit file_limit(rlim_t bytes) : handler(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before);
    rlimit const now{bytes, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~file_limit() {
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
  }
};

} // namespace

TEST_CASE("crc32c: published values") {
  auto const of = [](std::string_view text) { return crc32c{}.update(std::as_bytes(std::span(text))).value(); };
  CHECK(of("") == 0);
  CHECK(of("123456789") == 0xe3069283);           // Williams' check value
  CHECK(of(std::string(32, '\0')) == 0x8a9136aa); // RFC 3720, B.4
  CHECK(of(std::string(32, '\xff')) == 0x62a8ab43);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  CHECK(of(rising) == 0x46dd794e);
  for (std::size_t cut = 0; cut <= rising.size(); ++cut) {
    auto const bytes = std::as_bytes(std::span(rising));
    CHECK(crc32c{}.update(bytes.first(cut)).update(bytes.subspan(cut)).value() == 0x46dd794e);
  }
}

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
    CHECK(sentence([&] { old.bytes("other"); }) == "'" + path + "' has no file 'other'; use a directory saved with it");
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
    CHECK(sentence([&] { w.write("b", "x"); }) == "'" + path + "' has no save under way; begin a new one");
    CHECK(sentence([&] { w.commit(); }) == "'" + path + "' has no save under way; begin a new one");
  }
  CHECK(load(path) == "one");
}

TEST_CASE("directory: file names cannot be paths, hidden, taken or the manifest") {
  temporary_directory const scratch;
  directory_writer w(scratch / "c");
  w.write("a", "x");
  auto const rest =
      "' cannot name a file in '" + scratch / "c" + "'; use letters, digits, '.', '_', '-', and each name once";
  for (std::string const name : {"", ".", "..", "../a", "a/b", "/a", ".a", "a b", "\xc3\xa9", "manifest.json", "a"})
    CHECK(sentence([&] { w.write(name, "y"); }) == "'" + name + rest);
  CHECK(sentence([&] { w.write("a\n", "y"); }) == "'a?" + rest);
  CHECK_FALSE(sentence([&] { w.write(std::string(129, 'a'), "y"); }).empty());
  w.commit();
  directory_reader const r(scratch / "c");
  CHECK(r.text("a") == "x");
}

TEST_CASE("directory: a writer that died at any moment of its beginning leaves nothing for ever") {
  temporary_directory const scratch;
  std::string mark;
  {
    directory_writer w(scratch / "c");
    for (auto const& entry : fs::directory_iterator(scratch.path)) mark = read_file(entry.path() / ".constrain");
  }
  auto const left = scratch / ".c.partial-1";
  fs::create_directory(left); // before its mark
  save(scratch / "c", "one");
  CHECK(scratch.entries() == 1);
  for (std::size_t const size : {std::size_t{0}, std::size_t{10}, mark.size() - 1}) { // amid its head
    fs::create_directory(left);
    write_file(left + "/.constrain", mark.substr(0, size));
    save(scratch / "c", "two");
    CHECK(fs::exists(left) == (size > 10)); // that names another directory
    fs::remove_all(left);
  }
}

TEST_CASE("directory: a full disk loses nothing, wherever it is met") {
  temporary_directory const scratch;
  auto const path = scratch / "run/checkpoint";
  auto const big = std::string(100'000, 'x');
  for (auto const how : {way::yes, way::no}) {
    save(path, "old", how);
    auto const before = content_of(scratch.path);
    int failures = 0;
    for (rlim_t bytes : {0, 1, 50, 200, 260, 4096, 65536, 99'999}) {
      std::string text;
      {
        file_limit const limit(bytes);
        text = sentence([&] { save(path, bytes < 300 ? "new" : big, how); });
      }
      if (text.empty()) {
        CHECK(bytes < 300); // The short save fitted: put the old one back.
        save(path, "old", how);
      } else {
        ++failures;
        CHECK(text.starts_with("'" + path + "/"));
        CHECK(text.ends_with("' cannot be written (File too large); make room or choose another path and save again, "
                             "what was there before is untouched"));
      }
      CHECK(content_of(scratch.path) == before);
      CHECK(load(path) == "old");
    }
    CHECK(failures >= 6);
  }
}

TEST_CASE("directory: a full file system loses nothing") {
  temporary_directory const scratch;
  small_disk const disk(scratch.path);
  if (!disk.mounted) {
    MESSAGE("mounting a small file system is not permitted: the limit on a file's size stands for it");
    return;
  }
  auto const path = scratch / "checkpoint";
  save(path, "old");
  auto const before = content_of(scratch.path);
  for (std::size_t const size : {300'000, 400'000, 600'000, 2'000'000}) {
    auto const text = sentence([&] { save(path, std::string(size, 'x')); });
    CHECK(text.find("No space left on device") != std::string::npos);
    CHECK((content_of(scratch.path) == before));
    CHECK((load(path) == "old"));
  }
  // Filled to the last page, even a small save is refused, and works again when there is room.
  write_file(scratch / "filler", std::string(2'000'000, 'x'));
  CHECK_FALSE(sentence([&] { save(path, "new"); }).empty());
  CHECK(load(path) == "old");
  fs::remove(scratch / "filler");
  save(path, "new");
  CHECK(load(path) == "new");
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
  refused("holds a manifest that cannot be read");
  write_file(path, "a file");
  refused("is a file");
  fs::create_directory(path);
  write_file(path + "/thesis.txt", "years of work");
  refused("holds files that are not a checkpoint");
  CHECK_FALSE(sentence([] { directory_writer("/"); }).empty());
  CHECK_FALSE(sentence([] { directory_writer(""); }).empty());
  CHECK(sentence([] { directory_writer("/dev/null/x"); }) ==
        "the directory '/dev/null' cannot be made (File exists); make it or choose another path");
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

TEST_CASE("directory: a writer that was killed is cleaned up after, a living one is left alone") {
  temporary_directory const scratch;
  auto const path = scratch / "c";
  save(path, "one");
  auto const child = ::fork();
  if (child == 0) {
    directory_writer w(path);
    w.write("state.json", "unfinished");
    ::_exit(0); // Without destructors, as a kill would.
  }
  ::waitpid(child, nullptr, 0);
  CHECK(scratch.entries() == 2);
  CHECK(load(path) == "one");
  directory_writer living(path);
  living.write("state.json", "three");
  CHECK(scratch.entries() == 2);
  save(path, "two");
  CHECK(load(path) == "two");
  CHECK(scratch.entries() == 2);
  living.write("weights.bin", "three");
  living.commit();
  CHECK(load(path) == "three");
  CHECK(scratch.entries() == 1);
}

TEST_CASE("directory: killed at any moment, the old or the new one is there, whole") {
  for (auto const how : {way::yes, way::no}) {
    temporary_directory const scratch;
    auto const path = scratch / "c";
    save(path, "0", how);
    for (int attempt = 0; attempt < 40; ++attempt) {
      auto const child = ::fork();
      if (child == 0) {
        for (int i = 0;; ++i) save(path, std::to_string(i), how);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(500 + 377 * attempt));
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      CHECK_FALSE(load(path).empty());
    }
    save(path, "last", how);
    CHECK(load(path) == "last");
    CHECK(scratch.entries() == 1);
  }
}

TEST_CASE("directory: writers at the same time end with one of their directories, whole") {
  temporary_directory const scratch;
  auto const path = scratch / "c";
  save(path, "start");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) sentence([&] { save(path, std::to_string(t)); });
    });
  for (auto& thread : threads) thread.join();
  CHECK(load(path).size() == 1);
  save(path, "end");
  CHECK(scratch.entries() == 1);
}

TEST_CASE("directory: the one that the process works in is not replaced, nor one that holds it") {
  temporary_directory const scratch;
  auto const before = std::filesystem::current_path();
  std::filesystem::create_directories(scratch / "outer/inner");
  std::filesystem::current_path(scratch / "outer/inner");
  for (std::string const path : {".", "..", "../../outer", "../inner/"}) {
    CAPTURE(path);
    auto const said = sentence([&] { constrain::io::directory_writer{path}; });
    CHECK(said.find("is the directory that this process works in, or holds it") != std::string::npos);
  }
  CHECK(sentence([&] { constrain::io::directory_writer{"below"}; }).empty());
  std::filesystem::current_path(before);
}
