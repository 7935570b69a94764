#include <constrain/base/type_name.hpp>
#include <constrain/base/units.hpp>
#include <doctest/doctest.h>

#include <vector>

// The same text of every compiler: it is saved with a run.

namespace mine {

struct lion {};
template <class first, int second> struct pair {};

} // namespace mine

namespace {

struct hidden {
  struct inner {};
};

} // namespace

namespace {

template <class type> struct local_of {
  static auto make() {
    struct local {};
    return local{};
  }
};

} // namespace

TEST_CASE("the name of a type is what its user writes") {
  struct local {
    struct inner {};
  };
  using constrain::type_name;
  CHECK(type_name<mine::lion>() == "mine::lion");
  CHECK(type_name<mine::pair<mine::lion, 3>>() == "mine::pair<mine::lion, 3>");
  CHECK(type_name<mine::pair<mine::pair<hidden, 1>, -3>>() == "mine::pair<mine::pair<hidden, 1>, -3>");
  CHECK(type_name<hidden>() == "hidden");
  CHECK(type_name<hidden::inner>() == "hidden::inner");
  CHECK(type_name<constrain::bytes>() == "constrain::bytes");
  CHECK(type_name<mine::pair<constrain::bytes, 1>>() == "mine::pair<constrain::bytes, 1>");
  CHECK(type_name<local>().ends_with("local"));
  CHECK(type_name<local>().find(')') == std::string::npos);
  CHECK(type_name<local::inner>().ends_with("inner"));
  CHECK(type_name<decltype(local_of<int>::make())>().ends_with("local"));
}
