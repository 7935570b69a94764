#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

// The text of a header, read from its beginning to its end.

namespace constrain::docs {

/// The text on one line, with one space between words.
inline std::string joined(std::string const& text) {
  std::string line;
  for (char c : text) {
    if (std::isspace(static_cast<unsigned char>(c))) c = ' ';
    if (c == ' ' && (line.empty() || line.back() == ' ')) continue;
    line += c;
  }
  while (line.ends_with(" ")) line.pop_back();
  return line;
}
/// The index after the `>` that closes the `<` at `begin`. Angle brackets inside round brackets do not count.
inline std::size_t end_of_angle(std::string const& text, std::size_t begin) {
  int angle = 0, round = 0;
  for (auto i = begin; i < text.size(); ++i) {
    round += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (round == 0) angle += text[i] == '<' ? 1 : text[i] == '>' ? -1 : 0;
    if (angle == 0) return i + 1;
  }
  return text.size();
}
inline std::string without_template(std::string head) {
  head = joined(head);
  while (head.starts_with("template <")) head = joined(head.substr(end_of_angle(head, 9)));
  return head;
}
inline std::string first_word(std::string const& head) {
  auto const text = without_template(head);
  return text.substr(0, text.find_first_of(" <(:={;"));
}
inline std::string name_of_type(std::string const& head) {
  auto text = without_template(head);
  for (std::string_view const word : {"enum ", "class ", "struct ", "union ", "concept "})
    if (text.starts_with(word)) text = text.substr(word.size());
  return joined(text.substr(0, text.find(" :")));
}
/// The name before the parameters; of an operator, with the symbol, as in `operator+`.
inline std::string name_of_function(std::string const& declaration) {
  auto const text = without_template(declaration);
  if (auto const sign = text.find("operator"); sign != std::string::npos)
    return joined(text.substr(sign, text.find('(', sign + std::string_view("operator(").size()) - sign));
  for (std::size_t i = 0, angle = 0; i < text.size(); ++i) {
    angle += text[i] == '<' ? 1 : 0;
    angle -= text[i] == '>' && angle > 0 ? 1 : 0;
    if (text[i] != '(' || angle > 0) continue;
    auto const word = joined(text.substr(0, i));
    auto const name = word.substr(word.find_last_of(" *&") + 1);
    bool const is_word = name == "requires" || name == "explicit" || name == "alignas" || name == "decltype";
    if (!is_word && !name.starts_with("__")) return name;
    i = text.find(')', i);
  }
  return {};
}
inline bool has_word(std::string const& text, std::string const& word) {
  return (" " + text).find(" " + word + " ") != std::string::npos;
}
inline bool has_operator(std::string const& head) { return head.find("operator") != std::string::npos; }

class source_text {
public:
  explicit source_text(std::string text) : text_(std::move(text)) {}

protected:
  bool begins(std::string_view what) const { return text_.compare(at_, what.size(), what) == 0; }
  bool is_access(std::string_view what) {
    if (!begins(what)) return false;
    at_ += what.size();
    return true;
  }
  std::size_t line_begin(std::size_t i) const {
    auto const end = text_.rfind('\n', i == 0 ? 0 : i - 1);
    return end == std::string::npos ? 0 : end + 1;
  }
  std::size_t line_of(std::size_t i) const {
    auto const end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(i, text_.size()));
    return 1 + static_cast<std::size_t>(std::count(text_.begin(), end, '\n'));
  }
  std::size_t skip_space() {
    auto const begin = at_;
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return static_cast<std::size_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(begin),
                                               text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n'));
  }
  std::string rest_of_line() {
    auto const end = std::min(text_.find('\n', at_), text_.size());
    auto line = text_.substr(at_, end - at_);
    at_ = end;
    return line;
  }
  std::string logical_line() {
    auto line = rest_of_line();
    while (line.ends_with("\\") && at_ < text_.size()) ++at_, line += rest_of_line();
    return line;
  }
  void skip_comments() {
    while (at_ < text_.size() && begins("//")) rest_of_line();
  }
  void skip_until(char end) {
    while (at_ < text_.size() && text_[at_] != end) ++at_;
    ++at_;
  }
  std::string literal() {
    char const quote = text_[at_];
    auto const begin = at_++;
    if (quote == '"' && begin > 0 && text_[begin - 1] == 'R') {
      std::string end = ")";
      end.append(text_, at_, text_.find('(', at_) - at_).append(1, '"');
      at_ = std::min(text_.find(end, at_), text_.size() - end.size()) + end.size();
      return text_.substr(begin, at_ - begin);
    }
    // a digit separator, as in 100'000
    bool const separator = quote == '\'' && begin > 0 && std::isalnum(static_cast<unsigned char>(text_[begin - 1]));
    for (; !separator && at_ < text_.size() && text_[at_] != quote; ++at_) at_ += text_[at_] == '\\' ? 1 : 0;
    if (!separator) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  std::string template_parameters() {
    auto const begin = at_;
    at_ = end_of_angle(text_, at_);
    return text_.substr(begin, at_ - begin);
  }
  std::string balanced(char open, char close) {
    ++at_;
    std::string all(1, open);
    return all.append(inside_of(open, close));
  }
  /// Reads the text after the bracket `open`, up to and including the bracket `close` that matches it.
  std::string inside_of(char open, char close) {
    std::string all;
    for (int depth = 1; at_ < text_.size() && depth > 0;) {
      skip_comments();
      char const c = text_[at_];
      if (c == '"' || c == '\'') {
        all += literal();
        continue;
      }
      depth += c == open ? 1 : c == close ? -1 : 0;
      all += c, ++at_;
    }
    return all;
  }

  std::string text_;
  std::size_t at_ = 0;
};

} // namespace constrain::docs
