#include <constrain/run/host_arena.hpp>
#include <constrain/run/read_real.hpp>
#include <doctest/doctest.h>

namespace ct = constrain;

TEST_CASE("an element of a result is read in every floating-point type") {
  ct::host_arena memory(ct::bytes(64));
  auto const check = [&]<class stored>(stored first, stored second) {
    stored const elements[] = {first, second};
    memory.write(16, elements, sizeof elements);
    ct::host_view const view{16, 2, ct::dtype_of<stored>};
    CHECK(ct::read_real(memory, view, 0) == 1.5);
    CHECK(ct::read_real(memory, view, 1) == -0.25);
  };
  check(ct::float16(1.5f), ct::float16(-0.25f));
  check(ct::bfloat16(1.5f), ct::bfloat16(-0.25f));
  check(1.5f, -0.25f);
  check(1.5, -0.25);
  CHECK_THROWS_AS(ct::read_real(memory, {16, 2, ct::dtype::f64}, 6), ct::error); // beyond the arena
}
