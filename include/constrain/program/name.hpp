#pragma once

#include "constrain/base/variant.hpp"

#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A name: a range of characters in a program's `name_pool`.
struct name_ref {
  int offset = 0;    // index of the name's first character in the pool
  int length = 0;    // number of characters; 0: no name
  unsigned hash = 0; // FNV-1a of the characters; comparing hashes costs less compile time than comparing text
};

/// The characters of all names of a program.
struct name_pool {
  static constexpr int capacity = 4096; // maximum number of characters of all names
  char characters[capacity]{};          // the names one after another, without separators
  int used = 0;                         // characters in use

  /// The characters of one name; the view refers to this pool.
  constexpr std::string_view text(name_ref name) const {
    return {characters + name.offset, static_cast<std::size_t>(name.length)};
  }

  /// Appends "scope.name", without the '.' if either is empty, and returns the new name. If the capacity would be
  /// exceeded, adds nothing and returns an empty name.
  constexpr name_ref add(std::string_view scope, std::string_view name) {
    bool const joined = !scope.empty() && !name.empty();
    int const length = static_cast<int>(scope.size() + (joined ? 1 : 0) + name.size());
    if (used + length > capacity) return {};
    name_ref const result{used, length};
    for (char c : scope) characters[used++] = c;
    if (joined) characters[used++] = '.';
    for (char c : name) characters[used++] = c;
    unsigned hash = 2166136261u;
    for (int i = result.offset; i < used; ++i) hash = (hash ^ static_cast<unsigned char>(characters[i])) * 16777619u;
    return {result.offset, result.length, hash};
  }
};

} // namespace constrain
