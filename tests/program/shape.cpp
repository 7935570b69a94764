#include <constrain/program/shape.hpp>
#include <doctest/doctest.h>

using namespace constrain;

namespace {

constexpr shape activation(2, 3, 4), scalar;
static_assert(activation.rank == 3 && activation.elements() == 24 && activation.features() == 4 &&
              activation.rows() == 6);
static_assert(scalar.rank == 0 && scalar.elements() == 1 && scalar.features() == 1 && scalar.rows() == 1);
static_assert(activation.with_features(7) == shape(2, 3, 7));
static_assert(activation.without(0) == shape(3, 4) && activation.without(1) == shape(2, 4) &&
              activation.without(2) == shape(2, 3));
static_assert(shape(5).without(0) == scalar);
static_assert(shape(2, 3) != shape(3, 2) && shape(2, 3) != shape(2, 3, 1) && shape(6) != scalar);
static_assert(shape(std::int64_t{1} << 20, std::int64_t{1} << 20).elements() == std::int64_t{1}
                                                                                    << 40); // no int anywhere

} // namespace

TEST_CASE("shape") {
  // Leaving out a dimension divides the elements by its extent.
  shape const s(2, 3, 4, 5);
  for (int i = 0; i < s.rank; ++i) CHECK(s.without(i).elements() * s.extent[i] == s.elements());
  CHECK(s.rows() * s.features() == s.elements());
  CHECK(shape(3, 0).rows() == 0);
}
