#include <constrain/base/fixed_vector.hpp>
#include <doctest/doctest.h>

using namespace constrain;

namespace {

constexpr auto filled = [] {
  fixed_vector<int, 3> v;
  for (int i = 1; i <= 5; ++i) v.push_back(10 * i); // two are refused
  return v;
}();
static_assert(filled.size() == 3 && filled[0] == 10 && filled.back() == 30 && filled.capacity == 3);
static_assert(filled.contains(20) && !filled.contains(40) && !filled.empty());
static_assert(fixed_vector<int, 2>{}.empty() && fixed_vector<int, 2>{}.size() == 0);

} // namespace

TEST_CASE("fixed_vector") {
  fixed_vector<int, 2> v;
  CHECK(v.push_back(1));
  CHECK(v.push_back(2));
  CHECK(!v.push_back(3)); // refused, and nothing changed
  CHECK(v.size() == 2);
  CHECK(v.back() == 2);
  v.pop_back();
  CHECK(v.back() == 1);

  // Popped elements do not count.
  fixed_vector<int, 2> w;
  w.push_back(1);
  CHECK(v == w);
  w[0] = 4;
  CHECK(!(v == w));
  int sum = 0;
  for (int x : filled) sum += x;
  CHECK(sum == 60);
}
