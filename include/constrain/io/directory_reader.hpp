#pragma once

#include "constrain/io/manifest.hpp"
#include "constrain/io/mapped_file.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// Reads a directory that `directory_writer` committed. The constructor checks the manifest and the length and checksum
/// of each file. The files stay readable through this object even if a later save replaces the directory.
class directory_reader {
public:
  /// Whether there is something to read, intact or damaged. True in three cases: `path` is a directory with a manifest
  /// or a safetensors file (so that a copy without its manifest is not overlooked); listing `path` fails for a reason
  /// other than a missing path or a loop of links (the constructor then reads the directory or throws an `error` with
  /// this reason); an interrupted save left the directory '.<name>.previous' beside `path`. A symbolic link counts as
  /// the path that it refers to. Does not check the content. Throws `error` if `path` contains a NUL byte, or if it
  /// does not exist and does not end in a name.
  static bool finds(std::string const& path);

  /// The path of the directory '.<name>.previous' beside `path` or, if `path` is a link, beside the path that it refers
  /// to (see io/directory_replace.hpp). Empty if there is no such directory, or if there is something to read at `path`
  /// itself. `path` may exist: after a save was interrupted, a program may have created it again, for its own files.
  /// Throws as `finds` does.
  [[gnu::cold]] static std::string previous_of(std::string const& path);

  /// Opens and checks the directory `path`. If it does not exist, or has neither a manifest nor a safetensors file,
  /// reads '.<name>.previous' (see `finds`) instead, if that exists. If reading fails because a save replaces the
  /// directory meanwhile, reads the new one. Throws `error` if the directory, its manifest or a file is missing or
  /// cannot be read, if the manifest is invalid, and if a file was truncated or changed. Also throws as `finds` does.
  [[gnu::cold]] explicit directory_reader(std::string const& path);

  /// The files that the manifest lists, in the order in which they were written.
  std::vector<manifest::entry> const& entries() const { return contents_.files; }
  /// Whether the manifest lists the file `name`.
  bool contains(std::string_view name) const { return contents_.find(name) != nullptr; }

  /// The bytes of a file, valid for the lifetime of the reader. Throws `error` if the manifest does not list the file.
  std::span<std::byte const> bytes(std::string_view name) const&;
  /// The bytes of a file as text; otherwise like `bytes`.
  std::string_view text(std::string_view name) const&;
  // Deleted for temporaries: the view would dangle.
  void bytes(std::string_view name) && = delete;
  void text(std::string_view name) && = delete;

  /// The path of the file `name`, which need not exist, for errors about its content.
  std::string path(std::string_view name) const { return concat({directory_, "/", name}); }

private:
  std::string directory_;
  manifest contents_;
  std::vector<mapped_file> files_; // in the order of `contents_.files`

  /// `finds` without '.<name>.previous'.
  [[gnu::cold]] static bool finds_at(std::string const& path);

  /// Throws `error` unless `directory_` is a directory.
  void check_directory() const;

  /// Maps and checks the manifest and the files of `directory_`. Throws the errors of the constructor.
  [[gnu::cold]] void read();

  /// Throws `error` if the length or checksum of `file` differs from `entry`.
  [[gnu::cold]] void check(manifest::entry const& entry, mapped_file const& file) const;
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/directory_reader.ipp"
#endif
