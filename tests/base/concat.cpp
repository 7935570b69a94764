#include <constrain/base/error.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

using namespace constrain;

static_assert(std::is_trivially_copyable_v<text_part> && std::is_trivially_destructible_v<text_part>);
static_assert(!std::is_constructible_v<text_part, char>); // it would be a number

TEST_CASE("parts are joined in their order, numbers as they are written") {
  std::string const name = "weight";
  CHECK(concat({}) == "");
  CHECK(concat({"the tensor '", name, "' has ", 3, " extents"}) == "the tensor 'weight' has 3 extents");
  CHECK(concat({std::string_view("ab\0c", 4), std::string("d")}) == std::string("ab\0cd", 5));
  CHECK(concat({std::numeric_limits<std::int64_t>::min(), " ", std::numeric_limits<std::uint64_t>::max()}) ==
        "-9223372036854775808 18446744073709551615");
  CHECK(concat({std::int8_t{-1}, " ", std::uint8_t{255}, " ", 0u, " ", -1}) == "-1 255 0 -1");
}

TEST_CASE("a count is followed by the noun in the singular or plural") {
  CHECK(counted(0, "label") == "0 labels");
  CHECK(counted(1u, "label") == "1 label");
  CHECK(counted(std::numeric_limits<std::uint64_t>::max(), "byte") == "18446744073709551615 bytes");
}

TEST_CASE("an error's sentence is that of its parts, and control characters in them are shown") {
  CHECK(std::string(error({"step ", 7, ": '", std::string("a\nb"), "'"}).what()) == "step 7: 'a?b'");
  CHECK(std::string(error({"one part"}).what()) == "one part");
  CHECK(std::string(error("a sentence").what()) == "a sentence");
}
