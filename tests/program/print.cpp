#include <constrain/layer/repeat.hpp>
#include <constrain/op/add/add.hpp>
#include <constrain/op/linear/linear.hpp>
#include <constrain/program/print.hpp>
#include <doctest/doctest.h>

using namespace constrain;

namespace {

constexpr builder written(int iterations) {
  builder b;
  b.real = dtype::f64;
  ref const input{b.new_value({dtype::f64, shape(2, 4)}, role::input, 0), at::current};
  value const x{b, input};
  auto const y = repeat("block", iterations, x, [](value y) { return y + linear("up", y, 4); });
  linear("head", y, 3, {.bias = false});
  return b;
}

} // namespace

TEST_CASE("a program as text") {
  CHECK(print(written(3).program) == "%1@initial f64 [2, 4] = copy(%0)\n"
                                     "loop block 3\n"
                                     "  %4 f64 [2, 4] = linear(%1@current, block.up.weight, block.up.bias)\n"
                                     "  %5 f64 [2, 4] = add(%1@current, %4)\n"
                                     "  %1@next f64 [2, 4] = copy(%5)\n"
                                     "%7 f64 [2, 3] = linear(%1@final, head.weight)\n");
  CHECK(print(program{}) == "");
}

TEST_CASE("depth does not lengthen the text") {
  auto text = print(written(3).program);
  text.replace(text.find("loop block 3"), 12, "loop block 300");
  CHECK(print(written(300).program) == text);
}
