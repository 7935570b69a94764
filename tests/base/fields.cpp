#include <constrain/base/fields.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace detail = constrain::detail;

namespace {

struct nothing {};
struct one {
  float a = 1;
};
struct five {
  float a = 1, b = 2;
  double c = 3;
  int d = 4;
  bool e = true;
};
struct nested {
  float a = 1;
  one b;
  float c = 3;
};
struct with_array {
  float a = 1;
  float b[2]{};
};
struct inherited : one {
  float b = 2;
  int c = 3;
};
struct from_anything {
  from_anything() = default;
  template <class type> from_anything(type const&) {}
};
struct with_from_anything {
  float a = 1;
  from_anything b;
  int c = 3;
};
struct twelve {
  float a, b, c, d, e, f, g, h, i, j, k, l;
};
struct thirteen {
  float a, b, c, d, e, f, g, h, i, j, k, l, m;
};

static_assert(detail::field_count<nothing>() == 0 && detail::field_count<one>() == 1 &&
              detail::field_count<five>() == 5);
static_assert(detail::field_count<nested>() == 3 && detail::field_count<twelve>() == 12);
// Types whose fields cannot be counted have a count of 0, and compile.
static_assert(detail::field_count<inherited>() == 0 && detail::field_count<with_from_anything>() == 0);
static_assert(detail::field_count<with_array>() == 0 && detail::field_count<thirteen>() == 0);

} // namespace

TEST_CASE("every field of a plain struct is visited in order") {
  std::vector<double> seen;
  detail::for_each_field(five{}, [&](auto value) { seen.push_back(static_cast<double>(value)); });
  CHECK(seen == std::vector<double>{1, 2, 3, 4, 1});
  int arrays = 0;
  detail::for_each_field(with_array{}, [&](auto) { ++arrays; });
  CHECK(arrays == 0);
}
