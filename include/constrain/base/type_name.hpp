#pragma once

#include "constrain/base/variant.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

template <class type> constexpr char const* pretty_function() { return __PRETTY_FUNCTION__; }

/// Removes every occurrence of `part`.
inline void remove_all(std::string& text, std::string_view part) {
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
}

/// A compiler's name of a type, without what differs between compilers: unnamed namespaces, the library's inline
/// namespace, the function that a local type is in, blanks before a closing bracket.
[[gnu::noinline, gnu::cold]] inline std::string plain_type_name(std::string text) {
  for (auto const* part :
       {"{anonymous}::", "(anonymous namespace)::", "<unnamed>::", CONSTRAIN_TEXT(CONSTRAIN_VARIANT) "::"})
    remove_all(text, part);
  // nvcc names an unnamed namespace differently in every compilation.
  for (auto at = text.find("_GLOBAL__N_"); at != std::string::npos; at = text.find("_GLOBAL__N_", at))
    text.erase(at, text.find("::", at) + 2 - at);
  for (auto at = text.find(" >"); at != std::string::npos; at = text.find(" >", at)) text.erase(at, 1);
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i + 2 < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>') --depth;
    if (depth == 0 && (text[i] == ')' || text[i] == ']' || text[i] == '}') && text[i + 1] == ':') begin = i + 3;
  }
  return text.substr(begin);
}

} // namespace detail

/// The name of a type as its user writes it: "mine::lion". g++, clang and nvcc give the same, except for suffixes of
/// numbers among template arguments.
template <class type> std::string type_name() {
  constexpr std::string_view of_double = detail::pretty_function<double>(), text = detail::pretty_function<type>();
  constexpr auto begin = of_double.find("double");
  constexpr auto behind = of_double.size() - begin - std::string_view("double").size();
  return detail::plain_type_name(std::string(text.substr(begin, text.size() - begin - behind)));
}

} // namespace constrain
