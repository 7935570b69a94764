#include "reference_page.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

// Tests the reader that docs/reference.md is generated with, on a small header.

using namespace constrain::docs;

namespace {

std::string const header = R"(#pragma once
#include <string>
namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {
/// Nobody's business.
struct hidden { int x = 0; };
}

/// How long.
struct fit_options {
  std::int64_t steps = 100'000;                    // of the whole run,
                                                   // resumed ones included
  data::corpus const* validation = nullptr, *other{}; // what is evaluated
  std::function<void(int, int)> after{};           // of a step
  int ways[2]{1, 2};                               // how
  double epochs = 0;
  /// Where the run
  /// is saved.
  std::string directory;
  /// Of all
  /// runs.
  static constexpr int least = 1;
  static constexpr char const* name = "{;";
};

/// A machine.
template <class T, int n = (3 > 2)> class machine : base<T> {
public:
  using real = T; // of its numbers
  static constexpr int size = [] { return n; }(); // of everything

  explicit machine(int a) : a_(a), b_{a} { if (a) { run(); } }
  /// Runs.
  void run() const noexcept { for (;;) {} }
  int runs() const { return 1; }
  machine(machine const&) = delete;
  machine(machine&&) = default;

  bool operator==(machine const&) const = default;

private:
  /// Secret.
  int a_ = 0;
};

enum class way { up, down }; // where to

static_assert(sizeof(machine<int>) > 0, "a ';' and a '{'");

/// A thing that runs.
template <class type> concept is_machine = requires(type m) { m.run(); };

/// How.
namespace schedule {
struct constant {
  int warmup = 0; // steps
};
}

}
)";

std::string page_of(std::string const& path, std::string const& text, std::vector<std::string>* mistakes = nullptr) {
  reference_page page;
  auto const section = page.section(path, header_reader(text).all());
  if (mistakes != nullptr) *mistakes = page.mistakes();
  return section;
}

bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("reference: a struct's fields with type, default and comment") {
  auto const page = page_of("fit/fit.hpp", header);
  CAPTURE(page);
  CHECK(has(page, "### fit/fit.hpp\n\n`struct fit_options`\n\nHow long.\n\n| field | type | default | |"));
  CHECK(has(page, "| `steps` | `std::int64_t` | `100'000` | of the whole run, resumed ones included |"));
  CHECK(has(page, "| `validation` | `data::corpus const*` | `nullptr` | what is evaluated |"));
  CHECK(has(page, "| `other` |"));
  CHECK(has(page, "| `after` | `std::function<void(int, int)>` |  | of a step |"));
  CHECK(has(page, "| `ways` | `int[2]` | `{1, 2}` | how |"));
  CHECK(has(page, "| `directory` | `std::string` |  | Where the run is saved. |"));
  CHECK(has(page, "| `static constexpr int least = 1` | Of all runs. |"));
  CHECK(has(page, "`struct schedule::constant`"));
}

TEST_CASE("reference: a class's public members, without bodies") {
  auto const page = page_of("fit/fit.hpp", header);
  CAPTURE(page);
  CHECK(has(page, "`template <class T, int n = (3 > 2)> class machine : base<T>`"));
  CHECK(has(page, "| `using real = T` | of its numbers |"));
  CHECK(has(page, "| `static constexpr int size` | of everything |"));
  CHECK(has(page, "- `void run() const noexcept`\n\n  Runs.\n\n- `int runs() const`\n"));
  CHECK(has(page, "- `machine(machine const&) = delete`\n\n- `machine(machine&&)`\n"));
  CHECK(!has(page, "Secret"));
  CHECK(!has(page, "a_ = 0"));
  CHECK(!has(page, "hidden"));
}

TEST_CASE("reference: a concept by its name and words") {
  auto const page = page_of("fit/fit.hpp", header);
  CAPTURE(page);
  CHECK(has(page, "`template <class type> concept is_machine`\n\nA thing that runs.\n"));
  CHECK(!has(page, "static_assert"));
}

TEST_CASE("reference: a raw string ends at its own mark") {
  auto const page =
      page_of("io/page.hpp", "namespace constrain {\n/// Style.\ninline constexpr auto style = R\"css(} \" )\"; "
                             ")css\";\n/// Next.\nvoid next();\n}\n");
  CHECK(has(page, "`void next()`\n\nNext.\n"));
}

TEST_CASE("names of functions") {
  CHECK(name_of_function("template <class a> requires(sizeof(a) > 1) std::vector<a> make(int b = f(1))") == "make");
  CHECK(name_of_function("explicit machine(int a)") == "machine");
  CHECK(name_of_function("static __global__ void __launch_bounds__(64) square(int n)") == "square");
  CHECK(name_of_function("bool operator()(int a) const") == "operator()");
  CHECK(name_of_function("friend bytes operator<<(bytes a, int b)") == "operator<<");
}

TEST_CASE("reference: what an own loop and an own op need is in it") {
  std::stringstream in;
  in << std::ifstream(CONSTRAIN_INCLUDE "/../docs/reference.md").rdbuf();
  auto const page = in.str();
  constexpr char const* needed[] = {"`struct fit_options`",
                                    "`struct run_options`",
                                    "`struct compare_options`",
                                    "`struct generate_options`",
                                    "`struct data::text_options`",
                                    "`struct data::json_lines_options`",
                                    "`struct step_result`",
                                    "`struct evaluation`",
                                    "`struct fit_result`",
                                    "`struct memory_plan`",
                                    "`struct optimizer::adamw::hyper`",
                                    "`struct schedule::cosine`",
                                    "`struct linear_options`",
                                    "`struct micro_batch`",
                                    "batch_tokens",
                                    "`template <class T> struct tensor`",
                                    "`struct call`",
                                    "`struct attributes`",
                                    "`struct inferred`",
                                    "`class backward`",
                                    "`template <class op, class device> struct kernel`",
                                    "void parallel_for(",
                                    "void parallel_chunks(",
                                    "real ordered_sum(",
                                    "void simd_loop(",
                                    "void add_up_chunks(",
                                    "void for_elements(",
                                    "value emit(",
                                    "value parameter(",
                                    "dtype accumulator_of(",
                                    "using arithmetic = ",
                                    "`struct weight_format`"};
  for (std::string const each : needed) {
    CAPTURE(each);
    CHECK(has(page, each));
  }
}

TEST_CASE("reference: an option without a comment is a mistake") {
  std::vector<std::string> mistakes;
  page_of("fit/fit.hpp", header, &mistakes);
  REQUIRE(mistakes.size() == 1);
  CHECK(mistakes[0] == "fit/fit.hpp:17: the field fit_options::epochs has no comment; write beside it what it is and "
                       "in which unit");
}
