#include "reference_page.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

// Prints docs/reference.md from the headers: for a type, its fields with type, default and the comment beside them; for
// everything else, the declaration and the `///` above it. Fails if a field that users set or read has no comment.

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
                              {"layer", "`repeat` and `apply`, which compose layers"},
                              {"op", "the functions that layers call, and their ops"},
                              {"base", "dtypes, errors, units"},
                              {"program", "the intermediate representation: values, shapes, nodes, programs, plans"},
                              {"pass", "the passes, which turn a model's program into a plan"},
                              {"device", "building blocks of kernels: operands, parallel loops, sums, math functions"},
                              {"comm", "communication between processes"},
                              {"io", "safetensors, JSON, directories that are replaced atomically"}};

std::string text_of(fs::path const& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

} // namespace

int main() {
  std::printf(
      "# Reference\n\n"
      "The public declarations of the headers, with their comments. `tests/docs/reference.cpp` generates this page.\n"
      "The folder `run/` and the kernels of single devices are left out. A training program includes\n"
      "`<constrain/constrain.hpp>`. To use other declarations of this page, include their headers too, for example\n"
      "`<constrain/io/event_file.hpp>`. All names are in namespace `constrain`.\n");
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
