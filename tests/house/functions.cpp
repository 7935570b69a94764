#include "../docs/declarations.hpp"
#include "headers.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <vector>

// No function body is longer than 60 lines, from its opening to its closing brace. Private functions, functions in
// `detail` and test cases are checked too; a lambda counts as part of the function around it.

using namespace constrain::docs;

namespace {

struct measured {
  int functions = 0;
  std::size_t longest = 0;
  std::string where{};
  std::vector<std::string> too_long{};
};

void measure(std::string const& path, std::vector<declaration> const& all, measured& m) {
  for (auto const& d : all) {
    measure(path, d.members, m);
    if (d.kind != kind::function) continue;
    ++m.functions;
    auto const text = path + ":" + std::to_string(d.line) + ": " + d.name + ", " + std::to_string(d.body_lines);
    if (d.body_lines > 60) m.too_long.push_back(text);
    if (d.body_lines > m.longest) m.longest = d.body_lines, m.where = text;
  }
}

} // namespace

TEST_CASE("functions are short") {
  measured m;
  for (auto const& [path, text] : constrain::test::sources())
    measure(path, header_reader(text, reach::everybody).all(), m);
  REQUIRE(m.functions > 2000);
  std::printf("%d functions, the longest at %s lines\n", m.functions, m.where.c_str());
  for (auto const& each : m.too_long) std::printf("%s lines\n", each.c_str());
  CHECK(m.too_long.empty());
}

TEST_CASE("a long function is found: private, of detail, behind initialisers, around a lambda") {
  std::string const lines(60, '\n');
  std::string const header = "namespace constrain {\nnamespace detail {\ninline void f() {" + lines + "}\n}\n" +
                             "class c {\n  c(int a) : a_(a), b_{a} {" + lines + "}\n  int a_, b_;\n};\n" +
                             "int g() try {" + lines + "} catch (...) { return 1; }\n" +
                             "inline void h() { auto const l = [] {" + lines + "}; }\nvoid short_one() {}\n}\n";
  measured m;
  measure("x.hpp", header_reader(header, reach::everybody).all(), m);
  CHECK(m.functions == 5);
  CHECK(m.longest == 61);
  CHECK(m.too_long.size() == 4);
}
