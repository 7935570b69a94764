#include "../sentence.hpp"
#include "saved_directory.hpp"

#include <constrain/io/atomic_file.hpp>
#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <sys/mount.h>
#include <sys/resource.h>

// A checkpoint on a disk that is full: what was there before stays.

using namespace constrain::test;

namespace {

struct small_disk {
  fs::path path;
  bool mounted;
  explicit small_disk(fs::path const& path)
      : path(path), mounted(::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=512k") == 0) {}
  ~small_disk() {
    if (mounted) ::umount2(path.c_str(), MNT_DETACH);
  }
};

/// No file may grow beyond `bytes` during its life: writing more fails as on a full disk, on every machine. SIGXFSZ
/// keeps its default, which ends the process.
struct file_limit {
  rlimit before{};
  explicit file_limit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before);
    rlimit const now{bytes, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~file_limit() { ::setrlimit(RLIMIT_FSIZE, &before); }
};

} // namespace

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
        CHECK(text.ends_with(
            "' cannot be written (File too large); raise the limit on a file's size or choose another path, and save "
            "again; the old content is unchanged"));
      }
      CHECK(content_of(scratch.path) == before);
      CHECK(load(path) == "old");
    }
    CHECK(failures >= 6);
  }
}

TEST_CASE("a file with a failed write is not put in place, even if there is room again") {
  temporary_directory const scratch;
  auto const path = scratch / "file";
  {
    constrain::io::atomic_file file(path);
    file.out().write("old");
    file.commit();
  }
  {
    constrain::io::atomic_file file(path);
    file.out().write(std::string(1000, 'x'));
    auto const failure = [&] { return sentence([&] { file.commit(); }); };
    std::string first;
    {
      file_limit const limit(500);
      first = failure();
    }
    CHECK(first.find("(File too large)") != std::string::npos);
    CHECK(failure() == first);
  }
  CHECK(content_of(scratch.path).size() == 1);
  CHECK(content_of(scratch.path).begin()->second == "old");
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
