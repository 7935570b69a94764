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

/// One value of a parsed text. An object holds, for each member, a string (the name) and then the value.
struct json_node {
  std::uint32_t first;  ///< Byte in the text where the value begins (a string: after its quote).
  std::uint32_t length; ///< Bytes of a scalar; elements of an array; members of an object.
  std::uint32_t next;   ///< Index of the node after this one and everything in it.
  json_kind kind;
};

/// A parsed text: its nodes in pre-order, over a copy of the text with its strings decoded in place. A node needs at
/// least two bytes of text, so a tree holds at most 9 times the bytes it was read from.
struct json_tree {
  std::string where;
  std::string text;
  std::vector<json_node> nodes;

  std::string_view text_of(json_node const& node) const {
    return std::string_view(text).substr(node.first, node.length);
  }
};

/// Keeps all that a `json_cursor` reads, names unique within an object, at most 64 levels.
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
    char* out = begin; // Never ahead of the cursor: no escape is shorter than what it stands for.
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
