#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "constrain/io/failure.hpp"
#include "constrain/io/utf8.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

enum class json_kind : std::uint8_t { null, boolean, number, string, array, object };

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

/// Reads JSON (RFC 8259) strictly: no comments, no trailing commas, names unique within an object, UTF-8 throughout,
/// no lone surrogates, at most 64 levels.
class json_parser {
 public:
  static constexpr int maximum_depth = 64;

  /// `where` names the text in errors. Throws `error` with the byte and the reason.
  static json_tree parse(std::string_view text, std::string_view where) {
    json_parser parser{text, where};
    parser.space();
    parser.value(0);
    parser.space();
    if (parser.at != parser.tree.text.size()) parser.fail("there is more after the end of the value");
    return std::move(parser.tree);
  }

 private:
  json_tree tree;
  std::size_t at = 0;
  std::vector<std::uint32_t> names;

  json_parser(std::string_view text, std::string_view where) : tree{std::string(where), {}, {}} {
    if (text.size() >= std::numeric_limits<std::uint32_t>::max()) fail("the text is 4 GiB or longer");
    at = invalid_utf8(text);
    if (at != text.size()) fail("it is not UTF-8");
    at = 0;
    tree.text = text;
    tree.nodes.reserve(text.size() / 2 + 1);
  }

  [[noreturn]] void fail(std::string const& reason) const {
    throw failure({"'", tree.where, "' is not valid JSON at byte ", at, ": ", reason,
                   "; correct it or write it again"});
  }

  bool ended() const { return at == tree.text.size(); }
  char here() const { return ended() ? '\0' : tree.text[at]; }

  void space() {
    while (here() == ' ' || here() == '\n' || here() == '\r' || here() == '\t') ++at;
  }

  bool take(char expected) {
    if (ended() || here() != expected) return false;
    ++at;
    return true;
  }

  std::size_t open(json_kind kind) {
    tree.nodes.push_back({static_cast<std::uint32_t>(at), 0, 0, kind});
    return tree.nodes.size() - 1;
  }

  void close(std::size_t node, std::size_t length) {
    tree.nodes[node].length = static_cast<std::uint32_t>(length);
    tree.nodes[node].next = static_cast<std::uint32_t>(tree.nodes.size());
  }

  void value(int depth) {
    switch (here()) {
      case '{': return container(depth, json_kind::object, '}');
      case '[': return container(depth, json_kind::array, ']');
      case '"': return string();
      case 't': return word("true", json_kind::boolean);
      case 'f': return word("false", json_kind::boolean);
      case 'n': return word("null", json_kind::null);
      default: return number();
    }
  }

  void word(std::string_view expected, json_kind kind) {
    if (std::string_view(tree.text).substr(at, expected.size()) != expected) fail("an unknown word");
    auto const node = open(kind);
    at += expected.size();
    close(node, expected.size());
  }

  std::size_t digits() {
    auto const begin = at;
    while (here() >= '0' && here() <= '9') ++at;
    return at - begin;
  }

  void number() {
    auto const begin = at;
    auto const node = open(json_kind::number);
    bool const negative = take('-');
    bool const zero = here() == '0';
    auto const whole = digits();
    if (whole == 0 && negative) fail("a minus sign without digits");
    if (whole == 0) fail(ended() ? "the text ends too early" : "no value begins here");
    if (zero && whole > 1) fail("a number with a leading zero");
    if (take('.') && digits() == 0) fail("a decimal point without digits after it");
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (digits() == 0) fail("an exponent without digits");
    }
    close(node, at - begin);
  }

  unsigned hexadecimal() {
    unsigned code = 0;
    for (int k = 0; k < 4; ++k, ++at) {
      auto const digit = std::string_view("0123456789abcdefABCDEF").find(here());
      if (ended() || digit == std::string_view::npos) fail("\\u needs four hexadecimal digits");
      code = code * 16 + static_cast<unsigned>(digit < 16 ? digit : digit - 6);
    }
    return code;
  }

  char32_t escaped_code() {
    char32_t const code = hexadecimal();
    if (code < 0xd800 || code > 0xdfff) return code;
    if (code > 0xdbff || !take('\\') || !take('u')) fail("half of a surrogate pair");
    char32_t const low = hexadecimal();
    if (low < 0xdc00 || low > 0xdfff) fail("half of a surrogate pair");
    return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }

  void string() {
    ++at;
    auto const node = open(json_kind::string);
    char* const begin = tree.text.data() + at;
    char* out = begin; // Never ahead of `at`: no escape is shorter than what it stands for.
    while (!take('"')) {
      if (ended()) fail("a string without an end");
      char const c = tree.text[at++];
      if (static_cast<unsigned char>(c) < 0x20) {
        --at;
        fail("a control character in a string");
      }
      if (c != '\\') {
        *out++ = c;
        continue;
      }
      char const kind = here();
      if (!ended()) ++at;
      switch (kind) {
        case '"': case '\\': case '/': *out++ = kind; break;
        case 'b': *out++ = '\b'; break;
        case 'f': *out++ = '\f'; break;
        case 'n': *out++ = '\n'; break;
        case 'r': *out++ = '\r'; break;
        case 't': *out++ = '\t'; break;
        case 'u': out = put_utf8(out, escaped_code()); break;
        default: fail("an unknown escape");
      }
    }
    close(node, static_cast<std::size_t>(out - begin));
  }

  void container(int depth, json_kind kind, char end) {
    if (depth == maximum_depth) fail("more than " + std::to_string(maximum_depth) + " levels");
    auto const node = open(kind);
    ++at;
    space();
    std::size_t count = 0;
    while (!take(end)) {
      if (count > 0) {
        if (!take(',')) fail(std::string("a ',' or '") + end + "' is missing");
        space();
      }
      if (kind == json_kind::object) {
        if (here() != '"') fail("a member needs a name in quotes");
        string();
        space();
        if (!take(':')) fail("a ':' is missing");
        space();
      }
      value(depth + 1);
      space();
      ++count;
    }
    close(node, count);
    if (kind == json_kind::object) refuse_duplicates(node);
  }

  void refuse_duplicates(std::size_t object) {
    auto const& nodes = tree.nodes;
    names.clear();
    for (auto i = static_cast<std::uint32_t>(object) + 1; i < nodes[object].next; i = nodes[i + 1].next)
      names.push_back(i);
    auto const name = [&](std::uint32_t i) { return tree.text_of(nodes[i]); };
    std::sort(names.begin(), names.end(), [&](auto a, auto b) { return name(a) < name(b); });
    auto const equal = [&](auto a, auto b) { return name(a) == name(b); };
    auto const twice = std::adjacent_find(names.begin(), names.end(), equal);
    if (twice == names.end()) return;
    at = std::max(nodes[*twice].first, nodes[*(twice + 1)].first);
    fail("the name '" + std::string(name(*twice)) + "' stands twice in one object");
  }
};

} // namespace constrain::io
