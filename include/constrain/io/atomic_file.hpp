#pragma once

#include <cstdio>
#include <string>
#include <unistd.h>

#include "constrain/io/failure.hpp"
#include "constrain/io/output_file.hpp"
#include "constrain/io/path.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// A file that appears whole or not at all: written beside `path`, then renamed over it by `commit()`. Without a commit
/// nothing is left and what was there before stays.
class atomic_file {
 public:
  explicit atomic_file(std::string const& path)
      : target(path), temporary(target.sibling("partial-" + unlikely_suffix())), file(temporary, path) {}
  atomic_file(atomic_file const&) = delete;
  atomic_file& operator=(atomic_file const&) = delete;
  ~atomic_file() {
    if (!temporary.empty()) ::unlink(temporary.c_str());
  }

  /// Where to write.
  output_file& out() { return file; }

  void commit() {
    auto const path = target.directory + target.name;
    if (temporary.empty()) throw failure({"'", path, "' was already committed; write a new file"});
    file.close();
    if (std::rename(temporary.c_str(), path.c_str()) != 0)
      throw failure({"'", path, "' cannot be put in place (", reason(), "); choose another path and save again"});
    temporary.clear();
    sync_directory(target.holder());
  }

 private:
  split_path target;
  std::string temporary;
  output_file file;
};

} // namespace constrain::io
