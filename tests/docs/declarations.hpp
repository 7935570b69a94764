#pragma once

#include "source_text.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The declarations of a header: types with their fields, functions, constants, and their comments. This is not a C++
// parser: it reads the style of the headers in this tree, and skips function bodies.

namespace constrain::docs {

enum class kind { type, enumeration, requirement, function, field, constant, alias, macro, space };

struct declaration {
  docs::kind kind = kind::function;
  std::string text{};            // on one line, without body
  std::string name{};            // of a type, with the namespaces inside constrain; of a field; of a function
  std::string type{}, initial{}; // of a field: its type and default
  std::string documentation{};   // the lines `///` above
  std::string comment{};         // `//` beside it or above
  bool together = false;         // documented with the one above: no blank line, no `///` of its own
  std::size_t line = 0;
  std::size_t body_lines = 0; // of a function, with its braces
  std::vector<declaration> members{};
};

/// Which declarations are read: all, or those for users, without private members and namespaces that are called
/// `detail` or have no name.
enum class reach { users, everybody };

class header_reader : source_text {
public:
  explicit header_reader(std::string text, docs::reach reach = docs::reach::users)
      : source_text(std::move(text)), reach_(reach) {}

  std::vector<declaration> all() { return scope({}, false); }

private:
  /// Declarations up to the brace that closes the scope.
  std::vector<declaration> scope(std::string const& inside, bool hidden) {
    std::vector<declaration> found;
    std::string documentation, note;
    bool together = false;
    for (;;) {
      if (skip_space() > 1) together = false, note.clear();
      if (at_ >= text_.size()) return found;
      if (text_[at_] == '}') return ++at_, found;
      if (text_[at_] == ';') {
        ++at_;
        continue;
      }
      if (begins("static_assert(")) {
        skip_until('(');
        inside_of('(', ')');
        continue;
      }
      if (begins("//")) {
        bool const public_words = begins("///");
        auto const line = rest_of_line();
        (public_words ? documentation : note) += line.substr(public_words ? 3 : 2) + "\n";
        together = false;
        continue;
      }
      if (text_[at_] == '#') {
        declaration d{.kind = kind::macro, .text = logical_line(), .documentation = documentation};
        if (!d.text.starts_with("#define")) continue;
        if (!documentation.empty() && !hidden) found.push_back(d);
        documentation.clear();
        continue;
      }
      if (is_access("public:")) {
        hidden = false;
        continue;
      }
      if (is_access("private:") || is_access("protected:")) {
        hidden = reach_ == reach::users;
        continue;
      }

      auto declared = declared_here(inside);
      if (!declared.empty() && declared[0].kind == kind::space) {
        declared[0].documentation = std::exchange(documentation, {});
        found.insert(found.end(), declared.begin(), declared.end());
        continue;
      }
      for (auto& d : declared) {
        bool const group = together && documentation.empty();
        if (!documentation.empty()) d.documentation = documentation;
        if (d.comment.empty()) d.comment = joined(note);
        d.together = group;
        if (!hidden) found.push_back(d);
      }
      together = !documentation.empty() || together;
      documentation.clear(), note.clear();
      share_comment_of_line(found);
    }
  }

  /// The part of a declaration read so far.
  struct beginning {
    std::string head{};
    int round = 0, angle = 0;  // numbers of open brackets
    bool parameters = false;   // whether a function's parameters have begun
    bool initialised = false;  // whether a '=' was read
    bool initialisers = false; // whether a constructor's member initialisers have begun
  };

  /// Reads a declaration. Returns several if it declares several fields or is a namespace.
  std::vector<declaration> declared_here(std::string const& inside) {
    declaration d;
    d.line = line_of(at_);
    beginning b;
    for (skip_comments(); at_ < text_.size(); skip_comments()) {
      char const c = text_[at_];
      if (c == '"' || c == '\'') b.head += literal();
      else if (c == '<' && b.head.ends_with("template ")) b.head += template_parameters();
      else if (b.round > 0 || (c != ';' && c != '{')) take(c, b);
      else if (c == ';') {
        ++at_;
        break;
      } else if (opens_type_or_space(b)) return type_or_space(d, b, inside);
      else if (is_body(b)) {
        auto const first = line_of(at_);
        skip_body();
        d.body_lines = line_of(at_) - first + 1;
        break;
      } else if (auto const value = balanced('{', '}'); !b.initialisers) b.head += value;
    }
    d.text = joined(b.head);
    return of_kind(d, b);
  }

  void take(char c, beginning& b) {
    bool const of_operator = has_operator(b.head);
    bool const single = text_[at_ + 1] != ':' && text_[at_ - 1] != ':';
    bool const in_type = !b.parameters && !b.initialised && !of_operator;
    if (in_type && b.round == 0) b.angle += c == '<' ? 1 : c == '>' ? -1 : 0;
    if (c == '(' && b.angle == 0 && !b.initialised && !b.head.ends_with("alignas")) b.parameters = true;
    if (c == '=' && b.round == 0 && !of_operator) b.initialised = true;
    if (c == ':' && b.round == 0 && b.parameters && !b.initialised && single) b.initialisers = true;
    b.round += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    if (!b.initialisers) b.head += c;
    ++at_;
  }

  static bool opens_type_or_space(beginning const& b) {
    auto const word = first_word(b.head);
    if (b.parameters) return false;
    return word == "namespace" || word == "enum" ||
           (!b.initialised && (word == "struct" || word == "class" || word == "union"));
  }

  /// Whether a function's body opens here, not the value of a member that its constructor initialises.
  bool is_body(beginning const& b) const {
    auto const before = text_[text_.find_last_not_of(" \n", at_ - 1)];
    bool const member = b.initialisers && (std::isalnum(static_cast<unsigned char>(before)) || before == '_');
    return b.parameters && !b.initialised && !member;
  }

  void skip_body() {
    balanced('{', '}');
    while (text_.compare(std::min(text_.find_first_not_of(" \n", at_), text_.size()), 7, "catch (") == 0) {
      skip_until('{');
      inside_of('{', '}');
    }
    if (at_ < text_.size() && text_[at_] == ';') ++at_;
  }

  std::vector<declaration> type_or_space(declaration d, beginning const& b, std::string const& inside) {
    auto const word = first_word(b.head);
    if (word == "namespace") return in_namespace(b.head, inside);
    d.kind = word == "enum" ? kind::enumeration : kind::type;
    d.text = joined(b.head), d.name = inside + name_of_type(b.head);
    ++at_;
    d.members = word == "enum" ? enumerators() : scope({}, word == "class" && reach_ == reach::users);
    skip_until(';');
    return finish(d);
  }

  std::vector<declaration> of_kind(declaration d, beginning const& b) {
    auto const word = first_word(b.head);
    if (word == "using" || word == "typedef") d.kind = kind::alias;
    else if (b.head.find("(*") != std::string::npos && word != "template") return {function_pointer(d)};
    else if (word == "concept") d.kind = kind::requirement, d.name = name_of_type(b.head.substr(0, b.head.find('=')));
    else if (b.parameters || has_operator(b.head)) d.kind = kind::function, d.name = name_of_function(d.text);
    else if (word == "friend" || word == "struct" || word == "class" || word == "template") d.kind = kind::alias;
    else if (has_word(d.text, "static") || has_word(d.text, "inline")) d.kind = kind::constant;
    else return fields(d);
    return finish(d);
  }

  /// `int (*f)(int) = nullptr;`
  declaration function_pointer(declaration d) {
    auto const name = d.text.find("(*") + 2, end = d.text.find(')', name), value = d.text.find(" = ");
    d.kind = kind::field, d.name = d.text.substr(name, end - name);
    d.type = d.text.substr(0, name) + d.text.substr(end, value == std::string::npos ? value : value - end);
    d.initial = value == std::string::npos ? "" : d.text.substr(value + 3);
    d.comment = comment_beside();
    return d;
  }

  /// `int a = 1, b{2};` is two fields.
  std::vector<declaration> fields(declaration const& all) {
    std::vector<std::string> parts{""};
    int depth = 0, angle = 0;
    for (std::size_t i = 0; i < all.text.size(); ++i) {
      char const c = all.text[i];
      depth += c == '(' || c == '{' || c == '[' ? 1 : c == ')' || c == '}' || c == ']' ? -1 : 0;
      bool const initialiser = parts.back().find('=') != std::string::npos;
      angle += c == '<' && !initialiser ? 1 : c == '>' && !initialiser ? -1 : 0;
      if (c == ',' && depth == 0 && angle == 0) parts.push_back("");
      else parts.back() += c;
    }
    std::vector<declaration> found;
    std::string type;
    for (auto const& part : parts) {
      auto d = all;
      d.kind = kind::field;
      auto const end_of_type = part.find_last_of('>', part.find_first_of("={"));
      auto const bracket = part.find('[', end_of_type == std::string::npos ? 0 : end_of_type);
      auto const end_of_name = std::min({part.find('='), part.find('{'), bracket});
      auto const declarator = joined(part.substr(0, end_of_name));
      auto const begin_of_name = declarator.find_last_of(" *&") + 1;
      if (found.empty()) type = joined(declarator.substr(0, begin_of_name));
      d.name = declarator.substr(begin_of_name);
      d.type = type;
      auto rest = end_of_name == std::string::npos ? "" : part.substr(end_of_name);
      if (rest.starts_with("[")) {
        auto const end = rest.find(']') + 1;
        d.type += rest.substr(0, end), rest = rest.substr(end);
      }
      rest = joined(rest);
      d.initial = rest.starts_with("=") ? joined(rest.substr(1)) : rest;
      found.push_back(d);
    }
    auto const comment = comment_beside();
    for (auto& d : found) d.comment = comment;
    return found;
  }

  std::vector<declaration> enumerators() {
    std::vector<declaration> found;
    for (std::string word;;) {
      skip_comments();
      char const c = text_[at_++];
      if (c == ',' || c == '}') {
        declaration d{.kind = kind::field, .text = joined(word), .line = line_of(at_)};
        d.name = joined(word.substr(0, word.find('=')));
        d.comment = comment_beside();
        if (!d.name.empty()) found.push_back(d);
        word.clear();
        if (c == '}') return share_comment_of_line(found), found;
      } else {
        word += c;
      }
    }
  }

  std::vector<declaration> in_namespace(std::string const& head, std::string inside) {
    ++at_;
    std::string path = joined(head);
    path = path.size() > 10 ? path.substr(10) : "";
    bool const hidden = reach_ == reach::users && (path.empty() || path.ends_with("detail"));
    std::string_view constexpr library = "constrain::inline CONSTRAIN_VARIANT";
    if (path.starts_with(library)) path = path.substr(library.size());
    while (path.starts_with(":")) path = path.substr(1);
    if (!path.empty()) inside += path + "::";
    auto found = scope(inside, false);
    if (hidden) found.clear();
    found.insert(found.begin(), declaration{.kind = kind::space, .name = inside});
    return found;
  }

  std::vector<declaration> finish(declaration d) {
    d.comment = comment_beside();
    return {d};
  }

  /// `// ...` behind a declaration, and the lines below that begin in the same column.
  std::string comment_beside() {
    auto i = text_.find_first_not_of(' ', at_);
    if (i == std::string::npos || text_.compare(i, 2, "//") != 0) return {};
    auto const column = i - line_begin(i);
    std::string comment;
    for (;;) {
      at_ = i;
      auto line = rest_of_line().substr(2);
      comment += line.starts_with("/<") ? line.substr(2) : line;
      i = text_.find_first_not_of(" \n", at_);
      bool const next_line = i != std::string::npos && line_begin(i) == at_ + 1;
      if (!next_line || i - line_begin(i) != column || text_.compare(i, 2, "//") != 0) return joined(comment);
    }
  }

  /// The comment after the last field on a line applies to all fields on the line.
  static void share_comment_of_line(std::vector<declaration>& list) {
    for (std::size_t i = list.size(); i-- > 1;) {
      auto& one = list[i - 1];
      bool const same_line = one.kind == kind::field && list[i].kind == kind::field && one.line == list[i].line;
      if (same_line && one.comment.empty()) one.comment = list[i].comment;
    }
  }

  docs::reach reach_;
};

} // namespace constrain::docs
