#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <vector>

#include "constrain/base/error.hpp"
#include "constrain/io/crc32c.hpp"
#include "constrain/io/directory_handle.hpp"
#include "constrain/io/manifest.hpp"
#include "constrain/io/mapped_file.hpp"
#include "constrain/io/path.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// Reads a directory that `directory_writer` committed. The constructor checks all of it: manifest, lengths and
/// checksums. Its files stay readable when a later save replaces the directory.
class directory_reader {
public:
  /// Whether there is a saved directory at `path` (leftovers of an interrupted save do not count). It may be damaged:
  /// only the constructor checks that.
  static bool finds(std::string const& path) {
    for (auto const& name : directory_names(path).value_or(std::vector<std::string>{}))
      if (!name.starts_with('.')) return true;
    return !detail::exists(path) && !previous_of(path).empty();
  }

  /// Throws `error` for the first file that is missing, truncated or changed.
  [[gnu::noinline, gnu::cold]] explicit directory_reader(std::string const& path) : directory_(path) {
    // If the machine stopped between the two renames of a save, the old directory has this name.
    if (!detail::exists(directory_))
      if (auto const previous = previous_of(path); !previous.empty()) directory_ = previous;
    check_directory();
    auto const manifest_path = concat({directory_, "/", manifest_name});
    if (!detail::exists(manifest_path))
      throw error(
          {"'", directory_, "' has no ", manifest_name, ", so no save was finished there; use another directory"});
    mapped_file const file(manifest_path, "the manifest");
    contents_ = manifest::parse(file.text(), manifest_path);
    for (auto const& entry : contents_.files) files_.push_back(checked(entry));
  }

  /// The files of the manifest.
  std::vector<manifest::entry> const& entries() const { return contents_.files; }
  /// Whether the manifest lists a file of that name.
  bool contains(std::string_view name) const { return contents_.find(name) != nullptr; }

  /// The bytes of one file, valid as long as the reader. Throws `error` if there is no such file.
  std::span<std::byte const> bytes(std::string_view name) const& {
    auto const* const found = contents_.find(name);
    if (!found) throw error({"'", directory_, "' has no file '", name, "'; use a directory saved with it"});
    return files_[static_cast<std::size_t>(found - contents_.files.data())].bytes();
  }
  std::string_view text(std::string_view name) const& {
    auto const view = bytes(name);
    return {reinterpret_cast<char const*>(view.data()), view.size()};
  }
  // Deleted for temporaries: the view would dangle.
  void bytes(std::string_view name) && = delete;
  void text(std::string_view name) && = delete;

  /// The path of a file, for errors about its content.
  std::string path(std::string_view name) const { return concat({directory_, "/", name}); }

private:
  std::string directory_;
  manifest contents_;
  std::vector<mapped_file> files_; ///< In the order of `contents_.files`.

  /// The path '.<name>.previous' if it is a directory (a save was interrupted), else empty.
  [[gnu::noinline, gnu::cold]] static std::string previous_of(std::string const& path) {
    auto const previous = split_path(path).sibling("previous");
    auto const status = detail::status_at(AT_FDCWD, previous);
    return status && S_ISDIR(status->st_mode) ? previous : std::string();
  }

  void check_directory() const {
    struct stat status {};
    if (::stat(system_path(directory_), &status) != 0)
      throw error({"the directory '", directory_, "' cannot be opened (", reason(), "); check the path"});
    if (!S_ISDIR(status.st_mode)) throw error({"'", directory_, "' is no directory; give the one that was saved"});
  }

  [[gnu::noinline, gnu::cold]] mapped_file checked(manifest::entry const& entry) const {
    mapped_file file(path(entry.name), "the saved file");
    auto const size = file.bytes().size();
    if (size != entry.bytes)
      throw error({"'", path(entry.name), "' has ", size, " bytes where ", entry.bytes,
                   " were saved; use another copy of the directory"});
    if (crc32c{}.update(file.bytes()).value() != entry.crc32c)
      throw error({"'", path(entry.name), "' was changed after it was saved; use another copy of the directory"});
    return file;
  }
};

} // namespace constrain::io
