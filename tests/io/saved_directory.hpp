#pragma once

#include "../temporary_directory.hpp"

#include <constrain/io/directory_reader.hpp>
#include <constrain/io/directory_writer.hpp>
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

// A small checkpoint: two files of the same content.

namespace constrain::test {

namespace fs = std::filesystem;
using namespace constrain::io;
using way = directory_writer::exchange;

inline void save(std::string const& path, std::string const& content, way how = way::yes) {
  directory_writer w(path, how);
  w.write("state.json", content);
  w.write("weights.bin", [&](output_file& out) {
    for (char const c : content) out.write(std::string_view(&c, 1));
  });
  w.commit();
}

inline std::string load(std::string const& path) {
  directory_reader const r(path);
  CHECK(r.text("state.json") == r.text("weights.bin"));
  return std::string(r.text("state.json"));
}

/// Without the marks, each of which names its own directory.
inline std::map<std::string, std::string> content_of(fs::path const& directory) {
  std::map<std::string, std::string> files;
  for (auto const& entry : fs::recursive_directory_iterator(directory))
    if (entry.is_regular_file() && entry.path().filename() != ".constrain")
      files[entry.path().lexically_relative(directory).string()] = read_file(entry.path());
  return files;
}

} // namespace constrain::test
