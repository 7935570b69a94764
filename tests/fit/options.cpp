#include <constrain/fit/options.hpp>

#include <doctest/doctest.h>

#include <string>

#include "../sentence.hpp"

namespace ct = constrain;
using ct::test::sentence;

TEST_CASE("a path with a NUL byte is refused, whichever option has it") {
  std::string const path("a\0b", 3);
  auto const refusal = [](ct::fit_options const& o) { return sentence([&] { ct::detail::check_fit_options(o); }); };
  auto const expected = [](std::string const& field) {
    return "fit_options: " + field + " is 'a?b', which has a NUL byte (shown as '?'); give a path without it";
  };
  CHECK(refusal({.directory = path}) == expected(".directory"));
  CHECK(refusal({.best = path}) == expected(".best"));
  CHECK(refusal({.records = path}) == expected(".records"));
  CHECK(refusal({.directory = "a?b"}) == "");
}
