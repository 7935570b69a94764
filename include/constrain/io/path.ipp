#pragma once

#include "constrain/io/path.hpp"

#include "constrain/io/descriptor.hpp"

#include <atomic>
#include <climits>
#include <cstdlib>
#include <ctime>
#include <dirent.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE void refuse_working_directory(std::string const& path) {
  struct stat replaced {
  }, ancestor{};
  if (::stat(system_path(path), &replaced) != 0) return;
  auto const are_same = [](struct stat const& a, struct stat const& b) {
    return a.st_ino == b.st_ino && a.st_dev == b.st_dev;
  };
  struct stat descendant {};
  for (std::string up = "."; ::stat(up.c_str(), &ancestor) == 0 && !are_same(ancestor, descendant); up += "/..") {
    if (are_same(ancestor, replaced))
      throw error({"'", path,
                   "' is the working directory or contains it, and a save would replace that directory; choose another "
                   "directory, for example one inside the working directory"});
    descendant = ancestor;
  }
}

[[gnu::cold]] CONSTRAIN_INLINE split_path::split_path(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  struct stat status {};
  bool const exists = ::lstat(system_path(path), &status) == 0;
  split(path);
  if (exists && (S_ISLNK(status.st_mode) || name == "." || name == "..")) {
    struct owned_text {
      char* text;
      ~owned_text() { std::free(text); }
    } const real{::realpath(path.c_str(), nullptr)};
    if (real.text == nullptr)
      throw error({"'", path, "' cannot be resolved (", reason(),
                   "); remove it if it is a symbolic link, or choose another path"});
    split(real.text);
  }
  if (name.empty() || name == "." || name == "..")
    throw error({"'", path, "' does not end in the name of a file or directory; choose another path"});
}

[[gnu::cold]] CONSTRAIN_INLINE void split_path::split(std::string const& path) {
  auto const end = path.rfind('/') + 1;
  directory = path.substr(0, end);
  name = path.substr(end);
}

[[gnu::cold]] CONSTRAIN_INLINE std::optional<split_path> missing_path(std::string path) {
  constexpr int maximum_links = 40; // as in Linux
  for (int links = 0; links <= maximum_links; ++links) {
    while (path.size() > 1 && path.back() == '/') path.pop_back(); // lstat("link/") would follow the link
    struct stat status {};
    if (::lstat(system_path(path), &status) != 0) {
      auto const name = path.substr(path.rfind('/') + 1);
      if (links > 0 && (name == "." || name == "..")) return std::nullopt;
      return split_path(path);
    }
    char target[PATH_MAX];
    auto const length = ::readlink(path.c_str(), target, sizeof target);
    if (length <= 0) return std::nullopt; // not a link
    std::string_view const link_target(target, static_cast<std::size_t>(length));
    path = link_target.front() == '/' ? std::string(link_target)
                                      : concat({path.substr(0, path.rfind('/') + 1), link_target});
  }
  return std::nullopt;
}

[[gnu::cold]] CONSTRAIN_INLINE std::string unlikely_suffix() {
  static std::atomic<unsigned> calls{0};
  struct timespec time {};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return concat({::getpid(), "-", time.tv_nsec, "-", calls++});
}

[[gnu::cold]] CONSTRAIN_INLINE error not_on_disk(std::string const& path, int code) {
  return error(
      {"the directory '", path, "' cannot be synced to disk (", reason(code), "); check the disk and save again"});
}

[[gnu::cold]] CONSTRAIN_INLINE std::optional<std::vector<std::string>> directory_names(std::string const& path,
                                                                                       int base_directory) {
  descriptor file(::openat(base_directory, system_path(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  auto* const stream = file ? ::fdopendir(file.get()) : nullptr;
  if (!stream) return std::nullopt;
  file.release();
  struct closer {
    DIR* stream;
    ~closer() { ::closedir(stream); }
  } const stream_closer{stream};
  std::vector<std::string> names;
  errno = 0; // readdir also returns null on an error, but then sets errno
  while (auto const* entry = ::readdir(stream)) {
    if (std::string_view const name = entry->d_name; name != "." && name != "..") names.push_back(std::string(name));
    errno = 0;
  }
  if (errno != 0) return std::nullopt;
  return names;
}

[[gnu::cold]] CONSTRAIN_INLINE void make_directories(std::string const& path) {
  system_path(path); // throws for a NUL byte
  for (std::size_t end = 0; end != std::string::npos && end < path.size();) {
    end = path.find('/', end + 1);
    auto const prefix = path.substr(0, end);
    if (::mkdir(prefix.c_str(), 0777) == 0) continue;
    int const code = errno;
    struct stat status {};
    if (::stat(prefix.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
      throw error({"'", prefix, "' cannot be created as a directory (", reason(code), "); ", remedy(code),
                   " or choose another path"});
  }
}

} // namespace constrain::io
