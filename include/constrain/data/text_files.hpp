#pragma once

#include "constrain/base/variant.hpp"

#include <string>
#include <string_view>
#include <sys/stat.h>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::data::detail {

/// Lists the files under a directory, the root. Hidden names, special files and broken links are skipped. Other
/// symbolic links are followed. Each directory is read only once, and directories above the root are not read, so
/// listing ends even if the links form a cycle.
class file_tree {
public:
  /// Returns paths relative to `root`, sorted by bytes. If `extensions` is empty, lists all files. Throws `error` if a
  /// directory, or the status of a file in it, cannot be read.
  [[gnu::cold]] static std::vector<std::string> list(std::string const& root,
                                                     std::vector<std::string> const& extensions);

private:
  /// The identity of a directory.
  struct directory_id {
    dev_t device;
    ino_t inode;
  };

  std::string const& root_;
  std::vector<std::string> const& extensions_;
  std::vector<std::string> files_, links_;
  std::vector<directory_id> visited_; ///< Directories read so far, and directories above the root; sorted.

  file_tree(std::string const& root, std::vector<std::string> const& extensions)
      : root_(root), extensions_(extensions) {}

  /// The paths, sorted by bytes.
  [[gnu::cold]] static std::vector<std::string> sorted(std::vector<std::string> paths);

  /// Records a directory; returns false if it was recorded before.
  bool is_new(struct stat const& status);

  /// Records the directories above the root, so that links to them are not followed.
  void exclude_above();

  /// Whether a file has one of the extensions; true for every file if there are no extensions.
  bool has_extension(std::string_view name) const;

  /// Lists the files in a directory and in the directories below it; records linked directories in `links_`.
  /// `relative`, the directory's path from the root, is empty or ends with '/'.
  void read(std::string const& relative);

  /// Lists the files in one directory. Appends its subdirectories to `pending`, or to `links_` if they are links.
  [[gnu::cold]] void read_directory(std::string const& relative, std::vector<std::string>& pending);
};

} // namespace constrain::data::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/text_files.ipp"
#endif
