#pragma once

#include "constrain/data/text_files.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"
#include "constrain/base/heap_sort.hpp"
#include "constrain/io/descriptor.hpp"
#include "constrain/io/directory_handle.hpp"
#include "constrain/io/path.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::data::detail {

[[gnu::cold]] CONSTRAIN_INLINE std::vector<std::string> file_tree::list(std::string const& root,
                                                                        std::vector<std::string> const& extensions) {
  file_tree tree(root, extensions);
  tree.exclude_above();
  tree.read("");
  // Linked directories are read last, so that a file whose real path is in the tree is listed under that path.
  for (std::size_t i = 0; i < tree.links_.size(); ++i) {
    auto const next = tree.links_.begin() + static_cast<std::ptrdiff_t>(i);
    std::swap(*next, *std::min_element(next, tree.links_.end()));
    auto const link = *next; // a copy: `read` adds to `links_`
    tree.read(link);
  }
  return sorted(std::move(tree.files_));
}

[[gnu::cold]] CONSTRAIN_INLINE std::vector<std::string> file_tree::sorted(std::vector<std::string> paths) {
  std::vector<std::uint32_t> order;
  for (std::size_t i = 0; i < paths.size(); ++i) order.push_back(static_cast<std::uint32_t>(i));
  constrain::detail::heap_sort(order, [&](std::uint32_t a, std::uint32_t b) { return paths[a] < paths[b]; });
  std::vector<std::string> result;
  for (auto const i : order) result.push_back(std::move(paths[i]));
  return result;
}

[[gnu::cold]] CONSTRAIN_INLINE bool file_tree::is_new(struct stat const& status) {
  directory_id const id{status.st_dev, status.st_ino};
  auto const position =
      std::lower_bound(visited_.begin(), visited_.end(), id, [](directory_id const& a, directory_id const& b) {
        return a.device < b.device || (a.device == b.device && a.inode < b.inode);
      });
  if (position != visited_.end() && position->device == id.device && position->inode == id.inode) return false;
  visited_.insert(position, id);
  return true;
}

[[gnu::cold]] CONSTRAIN_INLINE void file_tree::exclude_above() {
  struct stat root {};
  struct stat status {};
  if (::stat(root_.c_str(), &root) != 0) return; // `read` reports the failure
  auto path = concat({root_, "/.."});
  // "/.." is "/", which must not be excluded if it is the root.
  while (::stat(path.c_str(), &status) == 0 && !io::detail::same_file(status, root) && is_new(status)) path += "/..";
}

[[gnu::cold]] CONSTRAIN_INLINE bool file_tree::has_extension(std::string_view name) const {
  for (auto const& extension : extensions_)
    if (name.ends_with(extension)) return true;
  return extensions_.empty();
}

[[gnu::cold]] CONSTRAIN_INLINE void file_tree::read(std::string const& relative) {
  std::vector<std::string> pending{relative};
  while (!pending.empty()) {
    auto const inner = std::move(pending.back());
    pending.pop_back();
    read_directory(inner, pending);
  }
}

[[gnu::cold]] CONSTRAIN_INLINE void file_tree::read_directory(std::string const& relative,
                                                              std::vector<std::string>& pending) {
  auto const path = concat({root_, "/", relative});
  struct stat status {};
  std::optional<std::vector<std::string>> names;
  if (::stat(path.c_str(), &status) == 0) {
    if (!is_new(status)) return;
    names = io::directory_names(path);
  }
  if (!names)
    throw error({"the directory '", path, "' cannot be read (", io::reason(), "); ",
                 io::lacks_resources() ? io::remedy() : "check the directory and its permissions"});
  for (auto const& name : *names) {
    if (name.starts_with('.')) continue;
    bool const is_link = ::lstat((path + name).c_str(), &status) == 0 && S_ISLNK(status.st_mode);
    if (::stat((path + name).c_str(), &status) != 0) {
      if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) continue; // a broken link, or removed meanwhile
      throw error({"'", path, name, "' cannot be read (", io::reason(), "); check the path and its permissions"});
    }
    if (S_ISREG(status.st_mode) && has_extension(name)) files_.push_back(relative + name);
    if (S_ISDIR(status.st_mode)) (is_link ? links_ : pending).push_back(concat({relative, name, "/"}));
  }
}

} // namespace constrain::data::detail
