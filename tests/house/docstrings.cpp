#include "../docs/declarations.hpp"
#include "headers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <vector>

// Every public entity has a docstring: types, concepts, functions, aliases and constants of namespace constrain, and
// the public functions and fields of types. The reference shows them (tests/docs/reference.cpp).

using namespace constrain::docs;

namespace {

/// The name that a line of an example in a docstring declares: `run` for "static void run(call const&)", `hyper` for
/// "struct hyper { ... };".
std::string explained_in(std::string line) {
  if (!line.starts_with("     ")) return {};
  line = joined(line.substr(0, line.find("//")));
  if (first_word(line) == "struct") return name_of_type(line.substr(0, line.find_first_of("{;")));
  return line.find('(') == std::string::npos ? "" : name_of_function(line);
}

/// The members that concepts document. Types that model a concept need not document them again.
std::set<std::string> const& explained_by_concepts() {
  static auto const all = [] {
    std::set<std::string> names;
    for (auto const& [path, text] : constrain::test::headers())
      for (auto const& d : header_reader(text).all())
        if (std::istringstream in(d.kind == kind::requirement ? d.documentation : ""); true)
          for (std::string line; std::getline(in, line);) names.insert(explained_in(line));
    return names;
  }();
  return all;
}

bool is_macro(std::string const& name) {
  return std::ranges::all_of(name, [](unsigned char c) { return std::isupper(c) || c == '_'; });
}

/// The docstring of `kernel` covers "template <> struct kernel<add, cpu>".
bool is_specialisation(declaration const& d) {
  return d.text.starts_with("template <>") || (d.kind == kind::type && d.name.ends_with(">"));
}

/// Definitions such as "struct corpus::parts { ... }" and "int json::size() const { ... }", declared in their type.
bool is_definition(declaration const& d) {
  auto const name = d.kind == kind::type ? name_of_type(d.text) : d.name;
  return d.kind != kind::alias && d.kind != kind::constant && name.find("::") != std::string::npos;
}

bool is_assignment_or_copy(declaration const& d, std::string const& type) {
  auto const parameters = d.text.substr(std::min(d.text.find('('), d.text.size()));
  bool const takes_itself = parameters.starts_with("(" + type + " const&") || parameters.starts_with("(" + type + "&&");
  return takes_itself && (d.name == type || d.name == "operator=");
}

bool needs_no_word(declaration const& d, declaration const* type) {
  if (d.text.ends_with("= default") || d.text.ends_with("= delete") || d.name.starts_with("~")) return true;
  // Comparisons and the operators of iterators.
  bool const dereferences = d.name == "operator*" && d.text.find("*()") != std::string::npos;
  if (d.name == "operator==" || d.name == "operator<=>" || d.name == "operator++" || dereferences) return true;
  if (is_macro(d.name) || has_word(d.text + " ", "override")) return true;
  if (type == nullptr) return false;
  auto const name = type->name.substr(type->name.find_last_of(':') + 1);
  // The type's docstring covers the call operator, and its concept covers the members that it requires.
  return is_assignment_or_copy(d, name) || d.name == "operator()" ||
         (has_word(d.text, "static") && explained_by_concepts().contains(d.name));
}

class audit {
public:
  void header(std::string const& path, std::vector<declaration> const& all) {
    path_ = path;
    list(all, nullptr);
  }
  std::vector<std::string> const& missing() const { return missing_; }
  int entities() const { return entities_; }
  int fields() const { return fields_; }

private:
  void list(std::vector<declaration> const& all, declaration const* type) {
    std::optional<std::string> above; // the last documented entity; it may cover the next overloads and one-liners
    for (auto const& d : all) {
      bool const shares = above && d.together && (d.name == above || is_one_liner(d));
      bool const has_words = !d.documentation.empty() || !d.comment.empty() || shares;
      if (is_entity(d, type)) {
        ++entities_;
        if (!has_words) missing_.push_back(path_ + ":" + std::to_string(d.line) + ": " + d.text.substr(0, 120));
      }
      if (d.kind == kind::field && type != nullptr && needs_words_for_fields(*type)) {
        ++fields_;
        if (!has_words) missing_.push_back(path_ + ":" + std::to_string(d.line) + ": " + type->name + "::" + d.name);
      }
      above = has_words ? std::optional(d.name) : std::nullopt;
      if (d.kind == kind::type && !is_specialisation(d)) list(d.members, &d);
    }
  }

  // Not needed for function objects, whose fields are an op's operands, for types that a concept documents, and in .cuh
  // files, which only kernels include.
  bool needs_words_for_fields(declaration const& type) const {
    auto const is_call = [](declaration const& m) { return m.name == "operator()"; };
    return !path_.ends_with(".cuh") && std::ranges::none_of(type.members, is_call) &&
           !explained_by_concepts().contains(type.name);
  }

  static bool is_one_liner(declaration const& d) {
    bool const is_value = d.kind == kind::constant || d.kind == kind::alias;
    return is_value || (d.kind == kind::function && d.body_lines <= 1);
  }

  static bool is_entity(declaration const& d, declaration const* type) {
    if (is_specialisation(d) || is_definition(d)) return false;
    switch (d.kind) {
    case kind::type: return type == nullptr || !explained_by_concepts().contains(d.name);
    case kind::enumeration:
    case kind::requirement: return true;
    case kind::function: return !needs_no_word(d, type);
    case kind::constant: return type == nullptr;
    case kind::alias: return type == nullptr && d.text.find(" = ") != std::string::npos; // no forward declaration
    default: return false;
    }
  }

  std::string path_;
  std::vector<std::string> missing_;
  int entities_ = 0, fields_ = 0;
};

} // namespace

TEST_CASE("every public entity has a docstring") {
  audit a;
  for (auto const& [path, text] : constrain::test::headers()) a.header(path, header_reader(text).all());
  REQUIRE(a.entities() > 500);
  REQUIRE(a.fields() > 300);
  std::printf("%d public entities and %d fields, %zu without a docstring\n", a.entities(), a.fields(),
              a.missing().size());
  for (auto const& each : a.missing()) std::printf("%s\n", each.c_str());
  CHECK(a.missing().empty());
}

TEST_CASE("the documentation of an op lists the members that op_info reads") {
  auto const listed = constrain::test::headers().at("constrain/program/is_op.hpp");
  auto const read = constrain::test::headers().at("constrain/program/op_info.hpp");
  int members = 0;
  for (auto at = read.find(" op::"); at != std::string::npos; at = read.find(" op::", at + 1)) {
    auto const end = std::find_if(read.begin() + static_cast<std::ptrdiff_t>(at) + 5, read.end(),
                                  [](unsigned char c) { return !std::islower(c) && c != '_'; });
    std::string const name(read.begin() + static_cast<std::ptrdiff_t>(at) + 5, end);
    CAPTURE(name);
    auto const is_listed = [&](char const* next) { return listed.find(" " + name + next) != std::string::npos; };
    CHECK((is_listed(" =") || is_listed("(") || is_listed("{")));
    ++members;
  }
  CHECK(members > 40);
}

TEST_CASE("a missing docstring is found") {
  std::string const header = R"(
namespace constrain {
namespace detail {
struct hidden { void nobody(); };
}
struct no_words {
  no_words() = default;
  no_words(no_words const&) {}
  bool operator==(no_words const&) const = default;
  int field = 0;
  int other = 0; // of something
  void lacks();
  /// Has.
  void has();
  void has(int);
  int line() { return 1; }
  void longer() {
    lacks();
  }

private:
  void secret();
};
template <> struct has_words<int> { void special(); };
/// Words.
template <class type> concept asks = requires(type t) { t(); };
template <class type> concept lacks_too = true;
inline constexpr int constant = 1; // of something
inline constexpr int number = 1;

using short_name = no_words;
struct declared_only;
}
)";
  audit a;
  a.header("x.hpp", header_reader(header).all());
  std::vector<std::string> lines;
  for (auto const& each : a.missing()) lines.push_back(each.substr(0, each.find(": ")));
  CHECK(lines == std::vector<std::string>{"x.hpp:6", "x.hpp:10", "x.hpp:12", "x.hpp:17", "x.hpp:27", "x.hpp:31"});
}
