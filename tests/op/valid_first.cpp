#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using rule = ct::op::valid_first;
static_assert(rule::infer(types({i32(shape(2, 5))})).outputs[0] == i32(shape(10)));
// Row numbers have no gradient.
static_assert(ct::info_of<rule>.gradient == nullptr);

std::vector<std::int32_t> order_of(std::vector<std::int32_t> const& labels) {
  shape const rows(static_cast<std::int64_t>(labels.size()));
  array<std::int32_t> const from(rows, labels);
  array<std::int32_t> order(rows);
  call_kernel<rule>(plain, from.in(), order.out());
  return order.values();
}

} // namespace

TEST_CASE("valid_first: rows with a valid label, then the others, in their order") {
  constexpr auto no = ct::ignored_label;
  CHECK(order_of({no, 3, 0, no, no, 7}) == std::vector<std::int32_t>{1, 2, 5, 0, 3, 4});
  CHECK(order_of({4, 4, 4}) == std::vector<std::int32_t>{0, 1, 2});
  CHECK(order_of({no, no, no}) == std::vector<std::int32_t>{0, 1, 2});
  CHECK(order_of({no, 0}) == std::vector<std::int32_t>{1, 0});
}
