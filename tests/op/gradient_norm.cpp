#include "op/call_kernel.hpp"

#include <cmath>
#include <limits>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

// They come after the gradients.
static_assert(ct::info_of<ct::op::square_sum>.gradient == nullptr);
static_assert(ct::info_of<ct::op::clip>.gradient == nullptr);
static_assert(ct::info_of<ct::op::square_sum>.infer(types({f32(shape(7, 3))}), {{2, 5}, {}}).outputs[0] ==
              f64(shape(5)));
static_assert(ct::info_of<ct::op::clip>.infer(types({f64(shape(5))}), {}).outputs[0] == f64(shape(2)));

namespace {

std::vector<double> clipped(std::vector<double> const& squares, double limit) {
  ct::run_numbers numbers;
  numbers.clip_norm = limit;
  array<double> const in(shape(static_cast<std::int64_t>(squares.size())), squares);
  array<double> out(shape(2));
  call_kernel<ct::op::clip>(ct::call{no_options, numbers}, in.in(), out.out());
  return out.values();
}

} // namespace

TEST_CASE_TEMPLATE("gradient_norm: each gradient's squares have their place", real, float, double) {
  array<real> const first(shape(2, 2), {1, 2, 3, 4}), second(shape(3), {-1, 0, 2});
  array<double> squares(shape(3));
  ct::attributes const zero{{0, 3}, {}}, one{{1, 3}, {}};
  call_kernel<ct::op::square_sum>(ct::call{zero, no_numbers}, first.in(), squares.out());
  CHECK(squares.values() == std::vector<double>{30, 0, 0}); // nothing of the last run stays
  ct::call add{one, no_numbers};
  add.adds = 1;
  call_kernel<ct::op::square_sum>(add, second.in(), squares.out());
  CHECK(squares.values() == std::vector<double>{30, 5, 0});
}

TEST_CASE("gradient_norm: floats are squared in double") {
  array<float> const g(shape(3), {1e30f, 1e30f, 1e-30f});
  array<double> squares(shape(1));
  call_kernel<ct::op::square_sum>(plain, g.in(), squares.out());
  CHECK(squares[0] == doctest::Approx(2e60));
}

TEST_CASE_TEMPLATE("gradient_norm: the same bits on every number of threads", real, float, double) {
  auto const g = array<real>::random(shape(10007), 1);
  double exact = 0;
  for (auto x : g.values()) exact += static_cast<double>(x) * static_cast<double>(x);
  check_same_on_all_threads([&] {
    array<double> squares(shape(1));
    call_kernel<ct::op::square_sum>(plain, g.in(), squares.out());
    CHECK(squares[0] == doctest::Approx(exact).epsilon(1e-13));
    return squares.values();
  });
}

TEST_CASE("gradient_norm: clipping scales what is longer, and only that") {
  CHECK(clipped({9, 16}, 0) == std::vector<double>{5, 1});
  CHECK(clipped({9, 16}, 6) == std::vector<double>{5, 1});
  CHECK(clipped({9, 16}, 2)[0] == 5);
  CHECK(clipped({9, 16}, 2)[1] == doctest::Approx(0.4).epsilon(1e-6));
  CHECK(clipped({0, 0}, 2) == std::vector<double>{0, 1});
}

TEST_CASE("gradient_norm: what is not finite is skipped, clipping or not") {
  for (double bad : {std::numeric_limits<double>::infinity(), std::nan("")})
    for (double limit : {0.0, 2.0}) {
      auto const result = clipped({9, bad, 16}, limit);
      CHECK(!std::isfinite(result[0]));
      CHECK(result[1] == 0);
    }
}

TEST_CASE("gradient_norm: an infinite gradient is seen in every type") {
  array<float> const g(shape(3), {1, std::numeric_limits<float>::infinity(), 1});
  array<double> squares(shape(1));
  call_kernel<ct::op::square_sum>(plain, g.in(), squares.out());
  CHECK(!std::isfinite(squares[0]));
}
