#include "reference_page.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

// Prints docs/reference.md, what the headers say of themselves: of a type its fields with type, default and the comment
// beside them, of everything else the declaration and `///` above it. Fails where a field that users fill in or read
// has no comment.

namespace fs = std::filesystem;
using namespace constrain::docs;

namespace {

struct folder {
  char const* name;
  char const* what;
};
constexpr folder folders[] = {{"fit", "`fit`, `compare`, progress, records, the report"},
                              {"train", "the trainer, schedules, saved runs"},
                              {"data", "corpora"},
                              {"model", "models, objectives and the task"},
                              {"policy", "policies and optimizers"},
                              {"layer", "control flow and composition: `repeat`, `apply`"},
                              {"op", "functions for layers, and the ops behind them"},
                              {"base", "what everybody stands on: dtypes, errors, units"},
                              {"program", "values, shapes, types, rules: for layers, ops and passes"},
                              {"pass", "from the forward program to a plan"},
                              {"device", "operands of a kernel, loops, sums, mathematics"},
                              {"comm", "processes"},
                              {"io", "files"}};

std::string text_of(fs::path const& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

} // namespace

int main() {
  std::printf("# Reference\n\nWhat the headers say, folder by folder; written by tests/docs/reference.cpp. `#include "
              "<constrain/constrain.hpp>` is enough for all but `io/`, `comm/` and devices. Everything is in namespace "
              "`constrain`.\n");
  fs::path const root = CONSTRAIN_INCLUDE "/constrain";
  reference_page reference;
  for (auto const& each : folders) {
    std::printf("\n## %s: %s\n", each.name, each.what);
    std::vector<fs::path> headers;
    for (auto const& file : fs::recursive_directory_iterator(root / each.name))
      if (file.path().extension() == ".hpp" && file.path().filename() != "cpu.hpp") headers.push_back(file.path());
    std::sort(headers.begin(), headers.end());
    for (auto const& header : headers) {
      auto const name = fs::relative(header, root).generic_string();
      std::fputs(reference.section(name, header_reader(text_of(header)).all()).c_str(), stdout);
    }
  }
  for (auto const& mistake : reference.mistakes()) std::fprintf(stderr, "%s\n", mistake.c_str());
  return reference.mistakes().empty() ? 0 : 1;
}
