#pragma once

#include "declarations.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

// Prints the declarations of a header as Markdown.

namespace constrain::docs {

inline bool is_field(declaration const& d) { return d.kind == kind::field; }
inline bool has_fields(declaration const& d) { return std::any_of(d.members.begin(), d.members.end(), is_field); }

/// Whether users set or read the fields of a type: options, an optimizer's hyperparameters, results, and the types in
/// `headers`.
inline bool is_for_users(declaration const& type, std::string const& header) {
  auto const is = [](std::string const& text) {
    return [&text](std::string_view part) { return text.ends_with(part) || text.starts_with(part); };
  };
  constexpr std::string_view names[] = {"_options", "::hyper", "_result", "_format", "_context"};
  constexpr std::string_view headers[] = {"model/",        "results.hpp",        "schedules.hpp",    "compare.hpp",
                                          "batch.hpp",     "training_state.hpp", "interval.hpp",     "op_info.hpp",
                                          "pass/cost.hpp", "attributes.hpp",     "device/kernel.hpp"};
  return std::ranges::any_of(names, is(type.name)) || std::ranges::any_of(headers, is(header));
}

class reference_page {
public:
  /// The section of a header; empty if the header declares nothing for users.
  std::string section(std::string const& header, std::vector<declaration> const& all) {
    header_ = header;
    std::string text;
    bool above = false; // the declaration above is in the page
    documented_space_.clear();
    for (auto const& d : all) {
      if (d.kind == kind::space) text += space(d), above = false;
      else if (d.kind == kind::type || d.kind == kind::enumeration) text += type(d), above = false;
      else above = plain(d, above, "", text);
    }
    return text.empty() ? text : "\n### " + header + "\n" + text;
  }

  std::vector<std::string> const& mistakes() const { return mistakes_; }

private:
  std::string space(declaration const& d) {
    if (d.documentation.empty()) return {};
    documented_space_ = d.name;
    return "\n`namespace " + d.name.substr(0, d.name.size() - 2) + "`\n\n" + lines(d.documentation, "");
  }

  std::string type(declaration const& d) {
    std::string text;
    bool const in_space = !documented_space_.empty() && d.name.starts_with(documented_space_);
    if (!d.documentation.empty() || in_space || (has_fields(d) && is_for_users(d, header_))) {
      text += "\n`" + with_name(d) + "`\n";
      if (!d.documentation.empty()) text.append("\n").append(lines(d.documentation, ""));
      text += fields(d) + constants(d);
      bool above = false;
      for (auto const& m : d.members)
        if (m.kind == kind::function || m.kind == kind::alias) above = plain(m, above, "- ", text);
    }
    for (auto m : d.members) {
      if (m.kind != kind::type && m.kind != kind::enumeration) continue;
      m.name = d.name + "::" + m.name;
      text += type(m);
    }
    return text;
  }

  /// Prints a function, an alias, a constant or a macro if it is documented. Returns whether it is.
  bool plain(declaration const& d, bool above, char const* bullet, std::string& text) const {
    bool const in_space = *bullet == 0 && !documented_space_.empty() && d.kind == kind::function;
    bool const together = (d.together && above) || in_space;
    if (d.kind == kind::field || (d.documentation.empty() && !together)) return false;
    std::string const indented = *bullet == 0 ? "" : "  ";
    text += std::string("\n") + bullet + "`" + shown(d) + "`\n";
    if (!d.documentation.empty()) text.append("\n").append(lines(d.documentation, indented));
    else if (!d.comment.empty()) text += "\n" + indented + cell(d.comment) + "\n";
    return true;
  }

  std::string fields(declaration const& type) {
    if (!has_fields(type)) return {};
    bool const is_enumeration = type.kind == kind::enumeration;
    auto const has_comment = [](declaration const& d) { return !d.comment.empty(); };
    if (is_enumeration && std::ranges::none_of(type.members, has_comment)) return values(type);
    std::string text =
        is_enumeration ? "\n| value | |\n|---|---|\n" : "\n| field | type | default | |\n|---|---|---|---|\n";
    for (auto const& m : type.members) {
      if (!is_field(m)) continue;
      auto const said = joined(m.comment.empty() ? m.documentation : m.comment);
      if (said.empty() && !is_enumeration && is_for_users(type, header_))
        mistakes_.push_back(header_ + ":" + std::to_string(m.line) + ": the field " + type.name + "::" + m.name +
                            " has no comment; write beside it what it is and in which unit");
      text.append("| ").append(code(m.name));
      auto const initial = m.initial == "{}" ? "" : m.initial;
      if (!is_enumeration) text.append(" | ").append(code(m.type)).append(" | ").append(code(initial));
      text.append(" | ").append(cell(said)).append(" |\n");
    }
    return text;
  }

  static std::string values(declaration const& enumeration) {
    std::string text;
    for (auto const& m : enumeration.members) text.append(text.empty() ? "\n" : ", ").append(code(m.name));
    return text + "\n";
  }

  /// Static members and types that have a comment.
  static std::string constants(declaration const& type) {
    std::string text;
    for (auto const& m : type.members) {
      bool const is_one = m.kind == kind::constant || (m.kind == kind::alias && m.documentation.empty());
      auto const said = joined(m.documentation.empty() ? m.comment : m.documentation);
      if (!is_one || said.empty()) continue;
      text += (text.empty() ? "\n| constant | |\n|---|---|\n| " : "| ") + code(shown(m)) + " | " + cell(said) + " |\n";
    }
    return text;
  }

  /// A declaration without its value if the value is long.
  static std::string shown(declaration const& d) {
    auto text = d.text;
    if (auto const end = text.find_first_of(" (", 8); d.kind == kind::macro && end != std::string::npos)
      text.resize(text[end] == '(' ? text.find(')') + 1 : end);
    auto const value = text.find(" = ");
    bool const long_value = value != std::string::npos && text.find_first_of("{[", value) != std::string::npos;
    if ((d.kind == kind::constant && long_value) || d.kind == kind::requirement) text.resize(value);
    // A deleted function stays marked: it cannot be called.
    if (constexpr std::string_view last = " = default"; text.ends_with(last)) text.resize(text.size() - last.size());
    return text;
  }

  /// `struct cosine` in namespace schedule is shown as `struct schedule::cosine`.
  static std::string with_name(declaration const& d) {
    auto const own = d.name.substr(d.name.rfind("::") == std::string::npos ? 0 : d.name.rfind("::") + 2);
    auto text = d.text;
    auto const at = text.rfind(" " + own);
    if (at != std::string::npos) text.replace(at + 1, own.size(), d.name);
    return text;
  }

  static std::string code(std::string const& text) {
    return text.empty() ? "" : std::string("`").append(cell(text)).append("`");
  }
  static std::string cell(std::string const& text) {
    std::string result;
    for (char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c == '\n' ? ' ' : c);
    while (result.ends_with(" ")) result.pop_back();
    return result.starts_with(" ") ? result.substr(1) : result;
  }
  static std::string lines(std::string const& documentation, std::string const& indented) {
    std::string text;
    std::istringstream in(documentation);
    for (std::string line; std::getline(in, line);)
      text += (line.empty() ? "" : indented) + (line.starts_with(' ') ? line.substr(1) : line) + "\n";
    return text;
  }

  std::string header_;
  std::string documented_space_; // "optimizer::": everything in it is listed
  std::vector<std::string> mistakes_;
};

} // namespace constrain::docs
