#include "headers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

// No line of a source, or of a page's C++, is longer than 120 columns. clang-format leaves long strings and comments.

namespace {

constexpr std::size_t columns = 120;

/// The number of characters: only the first byte of a UTF-8 sequence counts.
std::size_t width_of(std::string const& line) {
  std::size_t width = 0;
  for (char const c : line) width += (static_cast<unsigned char>(c) & 0xC0u) != 0x80u ? 1 : 0;
  return width;
}

/// The numbers of the lines that are too long. In a page, only shown and hidden C++ is checked.
std::vector<int> long_lines(std::string const& text, bool is_page) {
  std::vector<int> found;
  std::istringstream in(text);
  bool code = !is_page;
  int number = 1;
  for (std::string line; std::getline(in, line); ++number) {
    if (is_page && code) code = !line.starts_with("```") && !line.starts_with("-->");
    else if (is_page) code = line == "```cpp" || line == "<!-- cpp";
    if (code && width_of(line) > columns) found.push_back(number);
  }
  return found;
}

std::map<std::string, std::string> pages() {
  auto all = constrain::test::files_below(CONSTRAIN_ROOT, "docs", {".md"});
  all["README.md"] = constrain::test::text_of(CONSTRAIN_ROOT "/README.md");
  return all;
}

} // namespace

TEST_CASE("lines are short") {
  auto all = pages();
  REQUIRE(all.size() > 5);
  all.merge(std::map(constrain::test::sources()));
  REQUIRE(all.size() > 300);
  int found = 0;
  for (auto const& [path, text] : all)
    for (int const line : long_lines(text, path.ends_with(".md"))) {
      ++found;
      std::printf("%s:%d is longer than %zu columns\n", path.c_str(), line, columns);
    }
  CHECK(found == 0);
}

TEST_CASE("sources are short") {
  std::ptrdiff_t longest = 0;
  for (auto const& source : constrain::test::sources()) {
    auto const& text = source.second;
    auto const lines = std::count(text.begin(), text.end(), '\n');
    CAPTURE(source.first);
    CHECK(lines <= 400);
    longest = std::max(longest, lines);
  }
  CHECK(longest > 300);
}

TEST_CASE("a long line is found; in a page, only in code") {
  std::string const fits(120, 'x'), over(121, 'x');
  std::string text = fits;
  text.append("\n").append(over).append("\n");
  CHECK(long_lines(text, false) == std::vector{2});
  CHECK(long_lines(text, true).empty());
  std::string page = over;
  page.append("\n```cpp\n").append(text).append("```\n<!-- cpp\n").append(text).append("-->\n```text\n").append(over);
  CHECK(long_lines(page, true) == std::vector{4, 8});
}
