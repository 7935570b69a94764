#include "headers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

// Layering tests: which folder may include which, and how long a header may be. Reads the includes of the tree.

namespace {

struct header {
  std::vector<std::string> own;    // "constrain/op/add/add.hpp"
  std::vector<std::string> others; // "vector", "omp.h"
  int lines = 0;
};

/// The expected floors: a folder is one floor above the highest folder that it includes.
std::map<std::string, int> const floors = {{"base", 0},  {"comm", 1}, {"io", 1},    {"program", 1}, {"device", 2},
                                           {"data", 3},  {"op", 3},   {"run", 3},   {"layer", 4},   {"policy", 4},
                                           {"model", 5}, {"pass", 5}, {"train", 6}, {"fit", 7}};

// The folder of "constrain/op/add/add.hpp" is op; constrain.hpp and forward.hpp are in no folder.
std::string folder_of(std::string const& path) {
  auto const begin = path.find('/') + 1;
  auto const end = path.find('/', begin);
  return end == std::string::npos ? "" : path.substr(begin, end - begin);
}

/// Adds the includes of a file to `h`.
void read(std::string const& path, std::string const& text, header& h) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    auto const hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line[hash] != '#') continue;
    auto const word = line.find("include", hash);
    auto const open = line.find_first_of("\"<", hash);
    if (word == std::string::npos || open == std::string::npos || word > open) continue;
    auto const close = line.find_first_of("\">", open + 1);
    auto const name = line.substr(open + 1, close - open - 1);
    bool const is_own = name.rfind("constrain/", 0) == 0;
    // A header and its definitions count as one file.
    if (is_own && (name == path || name == path.substr(0, path.size() - 3) + "ipp")) continue;
    (is_own ? h.own : h.others).push_back(name);
  }
}

std::map<std::string, header> read_tree() {
  std::map<std::string, header> tree;
  for (auto const& [path, text] : constrain::test::headers()) {
    tree[path].lines = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    read(path, text, tree[path]);
  }
  for (auto const& [path, text] : constrain::test::definitions()) read(path, text, tree[path]);
  return tree;
}

std::map<std::string, header> const& tree() {
  static auto const read = read_tree();
  return read;
}

/// Collects everything that a header includes, directly or indirectly, and the header itself.
void collect(std::string const& path, std::set<std::string>& seen) {
  if (!seen.insert(path).second || !tree().contains(path)) return;
  for (auto const& next : tree().at(path).own) collect(next, seen);
}

/// An include cycle through `path`; empty if there is none.
std::vector<std::string> circle(std::string const& path, std::vector<std::string>& way, std::set<std::string>& done) {
  if (auto const again = std::find(way.begin(), way.end(), path); again != way.end()) return {again, way.end()};
  if (!done.insert(path).second || !tree().contains(path)) return {};
  way.push_back(path);
  for (auto const& next : tree().at(path).own)
    if (auto found = circle(next, way, done); !found.empty()) return found;
  way.pop_back();
  return {};
}

/// The other folders that each folder includes. constrain.hpp and forward.hpp are in no folder.
std::map<std::string, std::set<std::string>> included_folders(std::map<std::string, header> const& tree) {
  std::map<std::string, std::set<std::string>> folders;
  for (auto const& [path, h] : tree) {
    auto const folder = folder_of(path);
    if (folder.empty()) continue;
    auto& below = folders[folder];
    for (auto const& included : h.own)
      if (folder_of(included) != folder) below.insert(folder_of(included));
  }
  return folders;
}

/// The length of the longest path down from a folder. A cycle counts as a thousand floors.
int measured_floor(std::string const& folder, std::map<std::string, std::set<std::string>> const& folders,
                   std::set<std::string> path = {}) {
  if (!path.insert(folder).second) return 1000;
  int floor = 0;
  for (auto const& below : folders.contains(folder) ? folders.at(folder) : std::set<std::string>{})
    floor = std::max(floor, 1 + measured_floor(below, folders, path));
  return floor;
}

std::map<std::string, int> measured_floors(std::map<std::string, header> const& tree) {
  auto const folders = included_folders(tree);
  std::map<std::string, int> measured;
  for (auto const& each : folders) measured[each.first] = measured_floor(each.first, folders);
  return measured;
}

} // namespace

TEST_CASE("the floors match the includes") {
  for (auto const& [folder, floor] : measured_floors(tree())) std::printf("floor %d: %s\n", floor, folder.c_str());
  CHECK((measured_floors(tree()) == floors));
}

TEST_CASE("floors of a small tree, and of a tree with a cycle") {
  std::map<std::string, header> small = {{"constrain/a/x.hpp", {{}, {}}},
                                         {"constrain/b/x.hpp", {{"constrain/a/x.hpp", "constrain/b/y.hpp"}, {}}},
                                         {"constrain/c/d/x.hpp", {{"constrain/a/x.hpp", "constrain/b/x.hpp"}, {}}},
                                         {"constrain/door.hpp", {{"constrain/c/d/x.hpp"}, {}}}};
  CHECK((measured_floors(small) == std::map<std::string, int>{{"a", 0}, {"b", 1}, {"c", 2}}));
  small["constrain/a/x.hpp"].own = {"constrain/c/d/x.hpp"};
  CHECK(measured_floors(small).at("a") >= 1000);
}

TEST_CASE("every folder has a floor, and every included header exists") {
  REQUIRE(tree().size() > 50);
  for (auto const& header : tree()) {
    auto const& path = header.first;
    auto const& h = header.second;
    CAPTURE(path);
    auto const folder = folder_of(path);
    CHECK((path == "constrain/constrain.hpp" || path == "constrain/forward.hpp" || floors.contains(folder)));
    for (auto const& included : h.own) {
      CAPTURE(included);
      CHECK(tree().contains(included));
    }
    // The library's headers are included by their path from the root, so that includes do not depend on the folder.
    for (auto const& included : h.others) CHECK(included.find(".hpp") == std::string::npos);
  }
}

TEST_CASE("a header includes only its own folder and lower floors") {
  for (auto const& header : tree()) {
    auto const& path = header.first;
    auto const& h = header.second;
    auto const folder = folder_of(path);
    if (folder.empty()) continue;
    for (auto const& included : h.own) {
      auto const below = folder_of(included);
      CAPTURE(path);
      CAPTURE(included);
      bool const lower = !below.empty() && floors.at(below) < floors.at(folder);
      CHECK((below == folder || lower));
    }
  }
}

TEST_CASE("the include graph has no cycle") {
  std::set<std::string> done;
  for (auto const& header : tree()) {
    auto const& path = header.first;
    std::vector<std::string> way;
    auto const found = circle(path, way, done);
    std::string text;
    for (auto const& each : found) text += each + " -> ";
    CHECK(text == "");
  }
}

TEST_CASE("programs, policies and passes include no device, thread or provider") {
  std::set<std::string> const foreign = {"omp.h", "cblas.h", "dnnl.h", "dnnl.hpp", "mpi.h", "nccl.h", "cuda_runtime.h"};
  for (auto const& header : tree()) {
    auto const& path = header.first;
    auto const folder = folder_of(path);
    if (folder != "program" && folder != "policy" && folder != "pass") continue;
    std::set<std::string> all;
    collect(path, all);
    for (auto const& each : all) {
      CAPTURE(path);
      CAPTURE(each);
      CHECK(each.rfind("constrain/device/cpu", 0) != 0);
      CHECK(each.rfind("constrain/comm/", 0) != 0);
      if (!tree().contains(each)) continue;
      for (auto const& included : tree().at(each).others) CHECK(!foreign.contains(included));
    }
  }
}

TEST_CASE("constrain.hpp includes every function for writing models") {
  auto const& front = tree().at("constrain/constrain.hpp").own;
  int found = 0;
  for (auto const& [path, _] : tree()) {
    if (folder_of(path) != "op" && folder_of(path) != "layer") continue;
    std::istringstream in(constrain::test::headers().at(path));
    bool offers = false;
    for (std::string line; std::getline(in, line);) {
      bool const function = line.rfind("constexpr value ", 0) == 0 || line.rfind("template", 0) == 0;
      offers = offers || (function && line.find("constexpr value ") != std::string::npos);
    }
    if (!offers) continue;
    ++found;
    CAPTURE(path);
    CHECK(std::find(front.begin(), front.end(), path) != front.end());
  }
  CHECK(found >= 14);
}

// Every program that includes the library compiles its functions: std::ranges::sort takes g++ 12 about 0.04 s,
// std::sort half of that. std::sort compiles to three times as much code as `detail::heap_sort`.
TEST_CASE("no function of the library calls an algorithm that is slow to compile") {
  for (auto const* const texts : {&constrain::test::headers(), &constrain::test::definitions()})
    for (auto const& [path, text] : *texts)
      for (auto const* const slow : {"std::ranges::", "std::views::", "std::sort(", "std::stable_sort("}) {
        CAPTURE(path);
        CAPTURE(slow);
        CHECK(text.find(slow) == std::string::npos);
      }
}

TEST_CASE("definitions have a header, and are short") {
  for (auto const& definitions : constrain::test::definitions()) {
    auto const& path = definitions.first;
    auto const& text = definitions.second;
    CAPTURE(path);
    CHECK(constrain::test::headers().contains(path));
    CHECK(std::count(text.begin(), text.end(), '\n') <= 350);
  }
}

TEST_CASE("headers are short") {
  std::vector<int> lines;
  std::string longest;
  for (auto const& header : tree()) {
    auto const& path = header.first;
    auto const& h = header.second;
    CAPTURE(path);
    CHECK(h.lines <= 350);
    if (lines.empty() || h.lines > *std::max_element(lines.begin(), lines.end())) longest = path;
    lines.push_back(h.lines);
  }
  std::sort(lines.begin(), lines.end());
  auto const median = lines[lines.size() / 2];
  std::printf("%zu headers, median %d lines, the longest %d: %s\n", lines.size(), median, lines.back(),
              longest.c_str());
  CHECK(median <= 80);
}
