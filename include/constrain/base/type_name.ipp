#pragma once

#include "constrain/base/type_name.hpp"

#include <cstddef>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE std::string plain_type_name(std::string text) {
  for (auto const* part :
       {"{anonymous}::", "(anonymous namespace)::", "<unnamed>::", CONSTRAIN_TEXT(CONSTRAIN_VARIANT) "::"})
    remove_all(text, part);
  // nvcc gives an unnamed namespace a different name in every compilation.
  for (auto position = text.find("_GLOBAL__N_"); position != std::string::npos;
       position = text.find("_GLOBAL__N_", position))
    text.erase(position, text.find("::", position) + 2 - position);
  for (auto position = text.find(" >"); position != std::string::npos; position = text.find(" >", position))
    text.erase(position, 1);
  // Drops the function around a local type: everything up to the last ')', ']' or '}' that precedes "::" outside of
  // template arguments.
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i + 2 < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>') --depth;
    if (depth == 0 && (text[i] == ')' || text[i] == ']' || text[i] == '}') && text[i + 1] == ':') begin = i + 3;
  }
  return text.substr(begin);
}

} // namespace constrain::detail
