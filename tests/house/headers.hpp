#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

// The headers of the library and the sources of the tree, as text.

namespace constrain::test {

inline std::string text_of(std::filesystem::path const& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// The text of the files below `folder` with these extensions, by their path from `root`.
inline std::map<std::string, std::string> files_below(std::filesystem::path const& root, std::string const& folder,
                                                      std::set<std::string> const& extensions) {
  namespace fs = std::filesystem;
  std::map<std::string, std::string> texts;
  for (auto const& entry : fs::recursive_directory_iterator(root / folder))
    if (extensions.contains(entry.path().extension()))
      texts[fs::relative(entry.path(), root).generic_string()] = text_of(entry.path());
  return texts;
}

/// The headers by name: "constrain/op/add/add.hpp".
inline std::map<std::string, std::string> const& headers() {
  static auto const all = files_below(CONSTRAIN_INCLUDE, "constrain", {".hpp", ".cuh"});
  return all;
}

/// The definitions in .ipp files, by the names of their headers.
inline std::map<std::string, std::string> const& definitions() {
  static auto const all = [] {
    std::map<std::string, std::string> texts;
    for (auto const& [path, text] : files_below(CONSTRAIN_INCLUDE, "constrain", {".ipp"}))
      texts[path.substr(0, path.size() - 4) + ".hpp"] = text;
    return texts;
  }();
  return all;
}

/// The sources by name: "include/constrain/op/add/add.hpp", "tests/main.cpp".
inline std::map<std::string, std::string> const& sources() {
  static auto const all = [] {
    std::map<std::string, std::string> texts;
    for (auto const* const folder : {"include", "tests", "bench", "examples"})
      texts.merge(files_below(CONSTRAIN_ROOT, folder, {".hpp", ".cuh", ".ipp", ".h", ".cpp", ".cu"}));
    return texts;
  }();
  return all;
}

} // namespace constrain::test
