#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

// Every link of README.md and docs/*.md leads to a file of the tree and, behind '#', to a heading of it.

namespace fs = std::filesystem;

namespace {

struct page {
  std::set<std::string> headings;
  std::vector<std::string> links;
};

/// The anchor of a heading: lower case, words joined by '-', without other punctuation.
std::string anchor_of(std::string const& heading) {
  std::string anchor;
  for (char c : heading) {
    auto const letter = static_cast<unsigned char>(c);
    bool const stays = std::isalnum(letter) || letter >= 0x80 || c == '_' || c == '-';
    if (stays) anchor += static_cast<char>(std::tolower(letter));
    if (c == ' ') anchor += '-';
  }
  return anchor;
}

page read_page(fs::path const& path) {
  page found;
  std::ifstream in(path);
  bool code = false;
  std::string text; // links may run over the end of a line
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) code = !code;
    if (code || line.starts_with("    ")) continue;
    if (line.starts_with("#")) found.headings.insert(anchor_of(line.substr(line.find_first_not_of("# "))));
    text += line + "\n";
  }
  for (auto at = text.find("]("); at != std::string::npos; at = text.find("](", at + 1)) {
    auto const inside = text.substr(at + 2, text.find(')', at) - at - 2);
    auto const paragraph = text.rfind("\n\n", at);
    auto const begin = paragraph == std::string::npos ? 0 : paragraph;
    auto const before = text.substr(begin, at - begin);
    bool const is_code = std::count(before.begin(), before.end(), '`') % 2 == 1;
    if (!is_code) found.links.push_back(inside);
  }
  return found;
}

} // namespace

TEST_CASE("every link leads somewhere") {
  fs::path const root = CONSTRAIN_ROOT;
  std::vector<fs::path> pages = {root / "README.md"};
  for (auto const& file : fs::directory_iterator(root / "docs"))
    if (file.path().extension() == ".md") pages.push_back(file.path());
  int links = 0;
  for (auto const& path : pages)
    for (auto const& link : read_page(path).links) {
      if (link.starts_with("http")) continue;
      ++links;
      CAPTURE(path);
      CAPTURE(link);
      auto const hash = std::min(link.find('#'), link.size());
      auto const target = hash == 0 ? path : path.parent_path() / link.substr(0, hash);
      CHECK(fs::exists(target));
      if (hash < link.size()) CHECK(read_page(target).headings.contains(link.substr(hash + 1)));
    }
  CHECK(links > 30);
}

TEST_CASE("every page is in the guide") {
  fs::path const root = CONSTRAIN_ROOT;
  std::set<std::string> named;
  for (auto const& link : read_page(root / "docs/guide.md").links) named.insert(link.substr(0, link.find('#')));
  for (auto const& file : fs::directory_iterator(root / "docs")) {
    auto const name = file.path().filename().string();
    CAPTURE(name);
    CHECK((name == "guide.md" || named.contains(name)));
  }
}
