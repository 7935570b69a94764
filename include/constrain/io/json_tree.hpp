#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constrain/base/concat.hpp"
#include "constrain/io/json_cursor.hpp"
#include "constrain/io/json_names.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// A value of a parsed text. An object is followed by two nodes for each member: a string (the name), then the value.
struct json_node {
  std::uint32_t first;  ///< Offset in the text where the value begins (a string: after its quote).
  std::uint32_t length; ///< Bytes of a scalar; elements of an array; members of an object.
  std::uint32_t next;   ///< Index of the node after this one and its descendants.
  json_kind kind;       ///< Of this value.
};

/// A parsed text: its nodes in pre-order and a copy of the text in which strings are decoded in place. A value takes at
/// least two bytes of text and a node 16 bytes, so a tree needs at most 9 times the memory of the text.
struct json_tree {
  std::string where;            ///< Name of the text in errors.
  std::string text;             ///< The text, its strings decoded in place.
  std::vector<json_node> nodes; ///< In pre-order; the first is the whole value.

  /// A scalar's text; a string's is decoded.
  std::string_view text_of(json_node const& node) const {
    return std::string_view(text).substr(node.first, node.length);
  }
};

/// Parses a JSON text (see `json_cursor`) into a `json_tree`. Names must be unique within an object; at most 64 levels.
class json_parser {
public:
  static constexpr int maximum_depth = 64;

  /// `where` names the text in errors. Throws `error` with the byte and the reason.
  static json_tree parse(std::string_view text, std::string_view where) {
    json_parser parser(text, where);
    parser.value(0);
    parser.cursor_.finish();
    return std::move(parser.tree_);
  }

private:
  json_cursor cursor_;
  json_tree tree_;
  std::vector<std::uint32_t> names_;

  json_parser(std::string_view text, std::string_view where)
      : cursor_(text, where), tree_{std::string(where), std::string(text), {}} {
    tree_.nodes.reserve(text.size() / 2 + 1);
  }

  void value(int depth) {
    switch (auto const kind = cursor_.kind()) {
    case json_kind::object:
    case json_kind::array: return container(kind, depth);
    case json_kind::string: return string(cursor_);
    case json_kind::number: return add(kind, cursor_.number_token());
    default: return add(kind, cursor_.word_token());
    }
  }

  void add(json_kind kind, std::string_view token) {
    auto const next = static_cast<std::uint32_t>(tree_.nodes.size() + 1);
    tree_.nodes.push_back({cursor_.position_of(token), static_cast<std::uint32_t>(token.size()), next, kind});
  }

  void string(json_cursor& from) {
    char* const begin = tree_.text.data() + from.position() + 1;
    char* out = begin; // never overtakes the cursor: an escape is at least as long as the UTF-8 it decodes to
    auto const token = from.string_token([&](std::string_view part) {
      if (part.size() == 1) *out = part[0];
      else std::memcpy(out, part.data(), part.size());
      out += part.size();
    });
    add(json_kind::string, token);
    tree_.nodes.back().length = static_cast<std::uint32_t>(out - begin);
  }

  void name(std::string_view token) {
    if (token.find('\\') == token.npos) return add(json_kind::string, token);
    auto again = cursor_.from(cursor_.position_of(token) - 1);
    string(again);
  }

  void container(json_kind kind, int depth) {
    if (depth == maximum_depth) cursor_.fail(concat({"more than ", maximum_depth, " levels"}));
    auto const node = tree_.nodes.size();
    tree_.nodes.push_back({cursor_.position(), 0, 0, kind});
    auto const count = kind == json_kind::array ? cursor_.array([&] { value(depth + 1); })
                                                : cursor_.object([&](std::string_view name) {
                                                    this->name(name);
                                                    value(depth + 1);
                                                  });
    tree_.nodes[node].length = static_cast<std::uint32_t>(count);
    tree_.nodes[node].next = static_cast<std::uint32_t>(tree_.nodes.size());
    if (kind == json_kind::object && count > 1) refuse_duplicates(node);
  }

  void refuse_duplicates(std::size_t object) {
    auto const& nodes = tree_.nodes;
    names_.clear();
    for (auto i = static_cast<std::uint32_t>(object) + 1; i < nodes[object].next; i = nodes[i + 1].next)
      names_.push_back(i);
    auto const name = [&](std::uint32_t i) { return tree_.text_of(nodes[i]); };
    detail::sort_places(names_, [&](std::uint32_t a, std::uint32_t b) { return name(a) < name(b); });
    for (std::size_t i = 1; i < names_.size(); ++i)
      if (name(names_[i - 1]) == name(names_[i]))
        detail::refuse_second(cursor_, std::max(nodes[names_[i - 1]].first, nodes[names_[i]].first));
  }
};

} // namespace constrain::io
