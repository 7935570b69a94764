#pragma once

#include "constrain/io/directory_reader.hpp"

#include "constrain/base/error.hpp"
#include "constrain/io/crc32c.hpp"
#include "constrain/io/directory_handle.hpp"
#include "constrain/io/path.hpp"

#include <cerrno>
#include <cstddef>
#include <sys/stat.h>

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE bool directory_reader::finds(std::string const& path) {
  // While `finds_at` lists the directory, a save may replace it and remove its files: then the new one is there.
  return finds_at(path) || !previous_of(path).empty() || finds_at(path);
}

[[gnu::cold]] CONSTRAIN_INLINE directory_reader::directory_reader(std::string const& path) {
  // If a save was interrupted between its two renames, the old directory is '.<name>.previous'.
  auto const locate = [&] {
    auto const previous = previous_of(path);
    return previous.empty() ? path : previous;
  };
  directory_ = locate();
  // Another process may replace the directory while its files are opened, and remove the old one. After 100 such
  // replacements, the last error is thrown.
  for (int attempts = 100;; --attempts) {
    detail::directory_handle const opened(directory_); // while it is open, no other directory gets its inode
    try {
      read();
      return;
    } catch (error const&) {
      auto const current = locate();
      bool const is_same =
          current == directory_ && detail::same_file(detail::directory_handle(current).status(), opened.status());
      if (is_same || attempts == 0) throw;
      directory_ = current;
    }
  }
}

[[gnu::cold]] CONSTRAIN_INLINE void directory_reader::read() {
  check_directory();
  auto const manifest_path = concat({directory_, "/", manifest_name});
  // With any other error number, the manifest may exist: `mapped_file` then reports why it cannot be opened.
  if (!detail::exists(manifest_path) && (errno == ENOENT || errno == ENOTDIR))
    throw error({"'", directory_, "' has no ", manifest_name,
                 ", so it is not a complete saved directory; use another copy or another directory"});
  mapped_file const file(manifest_path, "the manifest");
  contents_ = manifest::parse(file.text(), manifest_path);
  // Maps all files first: the checksums take long to compute, and a save may replace the files meanwhile.
  files_.clear();
  for (auto const& entry : contents_.files) files_.emplace_back(path(entry.name), "the saved file");
  for (std::size_t i = 0; i < files_.size(); ++i) check(contents_.files[i], files_[i]);
}

[[gnu::cold]] CONSTRAIN_INLINE std::span<std::byte const> directory_reader::bytes(std::string_view name) const& {
  auto const* const found = contents_.find(name);
  if (!found) throw error({"'", directory_, "' has no file '", name, "'; use a directory saved with that file"});
  return files_[static_cast<std::size_t>(found - contents_.files.data())].bytes();
}

[[gnu::cold]] CONSTRAIN_INLINE std::string_view directory_reader::text(std::string_view name) const& {
  auto const view = bytes(name);
  return {reinterpret_cast<char const*>(view.data()), view.size()};
}

[[gnu::cold]] CONSTRAIN_INLINE bool directory_reader::finds_at(std::string const& path) {
  auto const names = directory_names(path);
  if (!names) return errno != ENOENT && errno != ELOOP; // the constructor reads the directory or throws
  for (auto const& name : *names)
    if (name == manifest_name || name.ends_with(".safetensors")) return true;
  return false;
}

[[gnu::cold]] CONSTRAIN_INLINE std::string directory_reader::previous_of(std::string const& path) {
  if (finds_at(path)) return {};
  auto target = missing_path(path);
  try {
    if (!target) target = split_path(path);
  } catch (error const&) {
    return {}; // the root directory, or a path that cannot be resolved
  }
  auto const previous = target->sibling("previous");
  auto const status = detail::status_at(AT_FDCWD, previous);
  return status && S_ISDIR(status->st_mode) ? previous : std::string();
}

[[gnu::cold]] CONSTRAIN_INLINE void directory_reader::check_directory() const {
  struct stat status {};
  if (::stat(system_path(directory_), &status) != 0)
    throw error(
        {"the directory '", directory_, "' cannot be opened (", reason(), "); check the path and its permissions"});
  if (!S_ISDIR(status.st_mode))
    throw error({"'", directory_, "' is not a directory; give the directory that was saved"});
}

[[gnu::cold]] CONSTRAIN_INLINE void directory_reader::check(manifest::entry const& entry,
                                                            mapped_file const& file) const {
  auto const size = file.bytes().size();
  if (size != entry.bytes)
    throw error({"'", path(entry.name), "' has ", counted(size, "byte"), ", but was saved with ", entry.bytes,
                 "; use another copy of the directory"});
  if (crc32c{}.update(file.bytes()).value() != entry.crc32c)
    throw error({"'", path(entry.name), "' was changed after it was saved; use another copy of the directory"});
}

} // namespace constrain::io
