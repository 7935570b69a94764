#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

// Prints docs/reference.md: what the headers say of themselves, `///` and the declaration after it. Of what is private or
// in a namespace `detail` nothing.

namespace fs = std::filesystem;

namespace {

std::size_t indentation(std::string const& line) { return std::min(line.find_first_not_of(' '), line.size()); }

/// A declaration on one line, without its body.
std::string joined(std::string const& declaration) {
  std::string text;
  for (char c : declaration) {
    if (c == ' ' && (text.empty() || text.back() == ' ')) continue;
    text += c;
  }
  // The body of a function begins behind its parameters, an initialiser or a base list stays.
  int round = 0;
  bool had_parameters = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++round, had_parameters = true;
    if (text[i] == ')') --round;
    bool const body = round == 0 && text[i] == '{' && (had_parameters || text.find('=') > i);
    if (round == 0 && (body || text[i] == ';' || (text[i] == ':' && had_parameters && text.compare(i, 2, "::") != 0 && text[i - 1] == ' '))) {
      text.resize(i);
      break;
    }
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == ';')) text.pop_back();
  return text;
}

struct entry {
  std::size_t level;
  std::string declaration, text;
};

std::vector<entry> entries_of(fs::path const& header) {
  std::vector<entry> found;
  std::ifstream in(header);
  std::string text;
  bool in_detail = false, is_private = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("namespace detail {")) in_detail = true;
    if (line.starts_with("} // namespace detail")) in_detail = false;
    auto const level = indentation(line);
    auto const content = line.substr(level);
    if (level == 0 && (content.starts_with("}") || content.starts_with("class ") || content.starts_with("struct "))) is_private = false;
    if (content.starts_with("private:")) is_private = true;
    if (content.starts_with("public:")) is_private = false;
    if (content.starts_with("///") && !content.starts_with("///<")) {
      text += content.substr(std::min<std::size_t>(content.size(), 3)) + "\n";
      continue;
    }
    if (text.empty()) continue;
    std::string declaration = content;
    auto const ends = [&] { return declaration.find_first_of("{;") != std::string::npos || declaration.starts_with("#define"); };
    for (std::string next; !ends() && std::getline(in, next);) declaration += " " + next;
    bool const preprocessor = declaration.starts_with("#") && !declaration.starts_with("#define");
    if (!in_detail && !(is_private && level > 0) && level <= 2 && !preprocessor && !declaration.starts_with("namespace"))
      found.push_back({level, joined(declaration), text});
    text.clear();
  }
  return found;
}

} // namespace

int main() {
  std::printf("# Reference\n\nWhat the headers say, folder by folder; written by tests/docs/reference.cpp. `#include "
              "<constrain/constrain.hpp>` is enough for all but `io/`, `comm/` and devices.\n");
  fs::path const root = CONSTRAIN_INCLUDE "/constrain";
  for (auto const* folder : {"model", "objective", "op", "policy", "data", "train", "comm", "io", "program"}) {
    std::printf("\n## %s\n", folder);
    std::vector<fs::path> headers;
    for (auto const& file : fs::recursive_directory_iterator(root / folder))
      if (file.path().extension() == ".hpp" && file.path().filename() != "cpu.hpp") headers.push_back(file.path());
    std::sort(headers.begin(), headers.end());
    for (auto const& header : headers) {
      auto const found = entries_of(header);
      if (found.empty()) continue;
      std::printf("\n### %s\n", fs::relative(header, root).c_str());
      for (auto const& e : found) {
        std::printf("\n%s`%s`\n\n", e.level == 0 ? "" : "- ", e.declaration.c_str());
        std::istringstream text(e.text);
        for (std::string line; std::getline(text, line);)
          std::printf("%s%s\n", e.level == 0 ? "" : "  ", line.c_str() + (line.starts_with(' ') ? 1 : 0));
      }
    }
  }
}
