#pragma once

#include "constrain/base/variant.hpp"

#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The signature of this function, which contains the compiler's name for `type`.
template <class type> constexpr char const* pretty_function() { return __PRETTY_FUNCTION__; }

/// Removes every occurrence of `part` from `text`.
[[gnu::noinline, gnu::cold]] inline void remove_all(std::string& text, std::string_view part) {
  for (auto position = text.find(part); position != std::string::npos; position = text.find(part, position))
    text.erase(position, part.size());
}

/// Returns `text`, a compiler's name for a type, without the parts that differ between compilers or that users do not
/// write: unnamed namespaces, the library's inline namespace, the function around a local type (but not among template
/// arguments), and spaces before '>'.
[[gnu::cold]] std::string plain_type_name(std::string text);

} // namespace detail

/// The name of a type as users write it: "mine::lion". g++, clang and nvcc agree on the names of classes, including
/// classes among template arguments, except in two cases. g++ writes inline namespaces of users, and clang omits them;
/// an optimizer or a policy in such a namespace, or with template arguments from one, should have a `name`. Among
/// template arguments, the compilers spell local classes, fundamental types, pointers and integers differently (`8` or
/// `8u`, `long unsigned int` or `unsigned long`).
template <class type> std::string type_name() {
  constexpr std::string_view double_signature = detail::pretty_function<double>(),
                             signature = detail::pretty_function<type>();
  constexpr auto prefix_length = double_signature.find("double");
  constexpr auto suffix_length = double_signature.size() - prefix_length - std::string_view("double").size();
  return detail::plain_type_name(
      std::string(signature.substr(prefix_length, signature.size() - prefix_length - suffix_length)));
}

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/base/type_name.ipp"
#endif
