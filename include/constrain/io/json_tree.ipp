#pragma once

#include "constrain/io/json_tree.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/heap_sort.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::io {

[[gnu::cold]] CONSTRAIN_INLINE json_tree json_parser::parse(std::string_view text, std::string_view source) {
  json_parser parser(text, source);
  parser.value(0);
  parser.cursor_.finish();
  return std::move(parser.tree_);
}

[[gnu::cold]] CONSTRAIN_INLINE void json_parser::value(int depth) {
  switch (auto const kind = cursor_.kind()) {
  case json_kind::object:
  case json_kind::array: return container(kind, depth);
  case json_kind::string: return string(cursor_);
  case json_kind::number: return add(kind, cursor_.number_token());
  default: return add(kind, cursor_.word_token());
  }
}

[[gnu::cold]] CONSTRAIN_INLINE void json_parser::add(json_kind kind, std::string_view token) {
  auto const next = static_cast<std::uint32_t>(tree_.nodes.size() + 1);
  tree_.nodes.push_back({cursor_.position_of(token), static_cast<std::uint32_t>(token.size()), next, kind});
}

[[gnu::cold]] CONSTRAIN_INLINE void json_parser::string(json_cursor& cursor) {
  char* const begin = tree_.text.data() + cursor.position() + 1;
  char* out = begin; // never passes the string's end: an escape is at least as long as the UTF-8 that it decodes to
  auto const token = cursor.string_token([&](std::string_view part) {
    if (part.size() == 1) *out = part[0];
    else std::memcpy(out, part.data(), part.size());
    out += part.size();
  });
  add(json_kind::string, token);
  tree_.nodes.back().length = static_cast<std::uint32_t>(out - begin);
}

[[gnu::cold]] CONSTRAIN_INLINE void json_parser::name(std::string_view token) {
  if (token.find('\\') == token.npos) return add(json_kind::string, token);
  auto name_cursor = cursor_.from(cursor_.position_of(token) - 1);
  string(name_cursor);
}

[[gnu::cold]] CONSTRAIN_INLINE void json_parser::container(json_kind kind, int depth) {
  if (depth == maximum_depth) cursor_.fail(concat({"nesting of more than ", maximum_depth, " levels"}));
  auto const node = tree_.nodes.size();
  tree_.nodes.push_back({cursor_.position(), 0, 0, kind});
  auto const count =
      kind == json_kind::array ? cursor_.array([&] { value(depth + 1); }) : cursor_.object([&](std::string_view name) {
        this->name(name);
        value(depth + 1);
      });
  tree_.nodes[node].length = static_cast<std::uint32_t>(count);
  tree_.nodes[node].next = static_cast<std::uint32_t>(tree_.nodes.size());
  if (kind == json_kind::object && count > 1) refuse_duplicates(node);
}

[[gnu::cold]] CONSTRAIN_INLINE void json_parser::refuse_duplicates(std::size_t object) {
  auto const& nodes = tree_.nodes;
  name_nodes_.clear();
  for (auto i = static_cast<std::uint32_t>(object) + 1; i < nodes[object].next; i = nodes[i + 1].next)
    name_nodes_.push_back(i);
  auto const name = [&](std::uint32_t i) { return tree_.text_of(nodes[i]); };
  constrain::detail::heap_sort(name_nodes_, [&](std::uint32_t a, std::uint32_t b) { return name(a) < name(b); });
  for (std::size_t i = 1; i < name_nodes_.size(); ++i)
    if (name(name_nodes_[i - 1]) == name(name_nodes_[i]))
      detail::refuse_duplicate(cursor_, std::max(nodes[name_nodes_[i - 1]].first, nodes[name_nodes_[i]].first));
}

} // namespace constrain::io
