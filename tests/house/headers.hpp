#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

// The headers of the library, as text.

namespace constrain::test {

inline std::string text_of(std::filesystem::path const& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// By name: "constrain/op/add/add.hpp".
inline std::map<std::string, std::string> const& headers() {
  namespace fs = std::filesystem;
  static auto const all = [] {
    std::map<std::string, std::string> texts;
    fs::path const root = CONSTRAIN_INCLUDE;
    for (auto const& entry : fs::recursive_directory_iterator(root))
      if (auto const extension = entry.path().extension(); extension == ".hpp" || extension == ".cuh")
        texts[fs::relative(entry.path(), root).generic_string()] = text_of(entry.path());
    return texts;
  }();
  return all;
}

} // namespace constrain::test
