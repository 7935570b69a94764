#pragma once

#include "constrain/io/real_path.hpp"

#include "constrain/base/concat.hpp"

#include <cstdlib>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE std::string real_path(std::string path) {
  system_path(path);
  std::vector<std::string> missing; // the last component first
  for (;;) {
    auto const* const candidate = path.empty() ? "." : path.c_str();
    struct owned_text {
      char* text;
      ~owned_text() { std::free(text); }
    } const real{::realpath(candidate, nullptr)};
    if (real.text != nullptr) {
      path = real.text;
      break;
    }
    if (path.empty()) break; // the working directory was removed: the path then counts as relative to '/'
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    auto const end = path.rfind('/') + 1;
    missing.push_back(path.substr(end));
    path.resize(end);
  }
  if (path == "/") path.clear();
  for (; !missing.empty(); missing.pop_back())
    if (auto const& name = missing.back(); name == "..") path.resize(path.empty() ? 0 : path.rfind('/'));
    else if (name != ".") path += concat({"/", name});
  return path.empty() ? "/" : path;
}

} // namespace constrain::io

namespace constrain::inline CONSTRAIN_VARIANT::io::detail {

[[gnu::cold]] CONSTRAIN_INLINE std::optional<struct stat> status_of(std::string const& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

/// Whether two results of `real_path` are equal or name the same directory or, if neither exists yet, have the same
/// name in the same directory.
[[gnu::cold]] CONSTRAIN_INLINE bool same_directory(std::string const& a, std::string const& b) {
  if (a == b) return true;
  auto const status_a = status_of(a), status_b = status_of(b);
  if (status_a && status_b) return same_file(*status_a, *status_b);
  auto const end_a = a.rfind('/'), end_b = b.rfind('/');
  if (status_a || status_b || a.substr(end_a) != b.substr(end_b)) return false;
  auto const parent_a = status_of(concat({a.substr(0, end_a), "/"})),
             parent_b = status_of(concat({b.substr(0, end_b), "/"}));
  return parent_a && parent_b && same_file(*parent_a, *parent_b);
}

} // namespace constrain::io::detail

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE std::optional<std::string> name_below(std::string const& path,
                                                                     std::string const& directory) {
  auto const resolved = real_path(path), root = real_path(directory);
  for (auto end = resolved.size();; end = resolved.rfind('/', end - 1)) {
    auto const ancestor = end == 0 ? std::string("/") : resolved.substr(0, end);
    if (detail::same_directory(ancestor, root)) {
      auto const remaining = resolved.substr(end);
      auto const begin = remaining.find_first_not_of('/');
      return begin == std::string::npos ? "" : remaining.substr(begin, remaining.find('/', begin) - begin);
    }
    if (end == 0) return std::nullopt;
  }
}

} // namespace constrain::io
