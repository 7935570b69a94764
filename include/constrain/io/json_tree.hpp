#pragma once

#include "constrain/io/json_cursor.hpp"
#include "constrain/io/json_names.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// A value of a parsed text. The node of an array is followed by the nodes of its elements, each with its descendants.
/// The node of an object is followed by two nodes for each member: the name (a string) and the value, with the value's
/// descendants.
struct json_node {
  std::uint32_t first;  ///< Offset of the value in the text; for a string, of the byte after its opening quote.
  std::uint32_t length; ///< Bytes of a scalar (after decoding), or the number of elements or members.
  std::uint32_t next;   ///< Index of the first node after this node and its descendants.
  json_kind kind;       ///< Kind of this value.
};

/// A parsed text: its nodes in pre-order and a copy of the text in which strings are decoded in place. In a long text,
/// each value takes at least two bytes and its node takes 16 bytes, so the tree needs at most about 9 times the memory
/// of the text.
struct json_tree {
  std::string where;            ///< Name of the text in errors.
  std::string text;             ///< The text, with strings decoded in place.
  std::vector<json_node> nodes; ///< In pre-order; the first is the root.

  /// The text of a scalar; a string is decoded and has no quotes.
  std::string_view text_of(json_node const& node) const {
    return std::string_view(text).substr(node.first, node.length);
  }
};

/// Parses a JSON text (see `json_cursor`) into a `json_tree`. Names must be unique within an object; at most
/// `maximum_depth` arrays and objects may be nested.
class json_parser {
public:
  /// The maximum number of nested arrays and objects.
  static constexpr int maximum_depth = 64;

  /// `source` names the text in errors. Throws `error`, with the byte offset and the reason, for invalid JSON.
  static json_tree parse(std::string_view text, std::string_view source);

private:
  json_cursor cursor_;
  json_tree tree_;
  std::vector<std::uint32_t> name_nodes_; // for `refuse_duplicates`: indices of the names of one object

  json_parser(std::string_view text, std::string_view source)
      : cursor_(text, source), tree_{std::string(source), std::string(text), {}} {
    tree_.nodes.reserve(text.size() / 2 + 1);
  }

  // These five functions append nodes. `value` reads the value at the cursor; `depth`: number of arrays and objects
  // around it.
  void value(int depth);

  // Appends the node of a scalar. `token`: its text, as the cursor returned it; its size becomes the node's `length`.
  void add(json_kind kind, std::string_view token);

  // Reads the string at `cursor`, and decodes it in place in `tree_.text`.
  void string(json_cursor& cursor);

  // Appends the name of a member; `token`: the name as written, which the cursor has read.
  void name(std::string_view token);

  // Reads the array or object at the cursor. Throws `error` if `depth` is `maximum_depth`.
  void container(json_kind kind, int depth);

  /// Throws `error` if two members of the object at node index `object` have the same name.
  void refuse_duplicates(std::size_t object);
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/json_tree.ipp"
#endif
