#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

#include <constrain/op/narrow_weight/cpu.hpp>

#include <cmath>
#include <limits>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;
using ct::bfloat16;
using ct::shape;

// All of these ops come after the gradients, so they have none.
static_assert(ct::info_of<ct::op::round_stochastically>.gradient == nullptr);
static_assert(ct::info_of<ct::op::compensated_sum>.gradient == nullptr);
static_assert(ct::info_of<ct::op::rounding_error>.gradient == nullptr);

namespace {

/// The two numbers in bf16 around x.
struct neighbours {
  float below, above;

  explicit neighbours(float x) {
    auto const bits = __builtin_bit_cast(std::uint32_t, x);
    below = __builtin_bit_cast(float, bits & 0xFFFF0000u);
    above = (bits & 0xFFFFu) == 0 ? below : __builtin_bit_cast(float, (bits & 0xFFFF0000u) + 0x10000u);
  }
};

/// Rounds `x` with the kernel; where `scale` is 0, the result is 7.
std::vector<float> rounded(std::vector<float> const& x, std::int64_t step, int parameter, double scale = 1) {
  shape const all(static_cast<std::int64_t>(x.size()));
  array<float> const from(all, x);
  array<double> const norm_and_scale(shape(2), {1, scale});
  array<bfloat16> to(all, std::vector<float>(x.size(), 7));
  auto const options =
      ct::pack(ct::op::round_stochastically::options{.parameter = parameter, .elements = all.elements()});
  ct::step_parameters parameters;
  parameters.seed = 11, parameters.step = step;
  call_kernel<ct::op::round_stochastically>(ct::call{options, parameters}, from.in(), norm_and_scale.in(), to.out());
  return {to.values().begin(), to.values().end()};
}

} // namespace

TEST_CASE("round_stochastically: the mean of 10^6 roundings is the number, within 4 standard errors") {
  constexpr int count = 1'000'000;
  for (float const x : {1.001f, -1.001f, 3.14159f, 0.1f, 1e-3f, -12345.6f, 6.1e-39f}) {
    CAPTURE(x);
    neighbours const n(x);
    auto const y = rounded(std::vector<float>(count, x), 3, 1);
    double sum = 0;
    long others = 0;
    for (float const one : y) {
      others += one == n.below || one == n.above ? 0 : 1;
      sum += static_cast<double>(one) / count;
    }
    CHECK(others == 0);
    double const distance = std::abs(static_cast<double>(n.above) - static_cast<double>(n.below));
    double const up = (static_cast<double>(x) - static_cast<double>(n.below)) /
                      (static_cast<double>(n.above) - static_cast<double>(n.below));
    double const standard_error = distance * std::sqrt(up * (1 - up) / count);
    CHECK(std::abs(sum - static_cast<double>(x)) <= 4 * standard_error);
  }
}

TEST_CASE("round_stochastically: numbers in bf16 stay, finite ones stay finite, others stay as they are") {
  constexpr float largest = std::numeric_limits<float>::max(), infinity = std::numeric_limits<float>::infinity();
  for (std::uint32_t random = 0; random < 0x10000u; random += 257) {
    for (float const x : {0.0f, -0.0f, 1.0f, -2.5f, 0x1p-126f})
      CHECK(static_cast<float>(ct::round_stochastically(x, random)) == x);
    CHECK(std::isfinite(static_cast<float>(ct::round_stochastically(largest, random))));
    CHECK(std::isfinite(static_cast<float>(ct::round_stochastically(-largest, random))));
    CHECK(static_cast<float>(ct::round_stochastically(infinity, random)) == infinity);
    CHECK(std::isnan(static_cast<float>(ct::round_stochastically(std::nanf(""), random))));
  }
}

TEST_CASE("round_stochastically: other steps and parameters round otherwise; a scale of 0 changes nothing") {
  std::vector<float> const x(1000, 1.002f);
  auto const y = rounded(x, 3, 1);
  CHECK(y == rounded(x, 3, 1));
  CHECK(y != rounded(x, 4, 1));
  CHECK(y != rounded(x, 3, 2));
  CHECK(rounded(x, 3, 1, 0) == std::vector<float>(1000, 7.0f));
}

TEST_CASE("round_stochastically: bit-identical for every range of elements and on any number of threads") {
  std::vector<float> x(1003);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1 + static_cast<float>(i) * 1e-4f;
  auto const all = rounded(x, 5, 2);
  double const norm_and_scale[] = {1, 1};
  ct::step_parameters parameters;
  parameters.seed = 11, parameters.step = 5;
  for (std::int64_t const first : {0, 1, 7, 8, 500, 1002}) {
    auto const count = static_cast<std::int64_t>(x.size()) - first;
    for (bool const draw_by_draw : {true, false}) {
      std::vector<bfloat16> y(static_cast<std::size_t>(count));
      ct::round_stochastically_elements const body{x.data() + first, norm_and_scale,   y.data(),   first, count,
                                                   0x800002,         std::uint64_t{0}, &parameters};
      if (draw_by_draw)
        for (std::int64_t i = 0; i < body.draws(); ++i) body(i);
      else ct::kernel<ct::op::round_stochastically, ct::cpu>::round(body);
      for (std::int64_t i = 0; i < count; ++i)
        CHECK(static_cast<float>(y[static_cast<std::size_t>(i)]) == all[static_cast<std::size_t>(first + i)]);
    }
  }
  check_same_on_all_threads([&] { return rounded(std::vector<float>(100'000, 1.003f), 1, 0); });
}

TEST_CASE("compensated_sum and rounding_error: a weight and what its rounding leaves out") {
  auto const x = array<float>::random(shape(40, 5), 3);
  array<float> error(shape(40, 5)), sum(shape(40, 5));
  array<bfloat16> narrow(shape(40, 5));
  call_kernel<ct::op::rounding_error>(plain, x.in(), error.out());
  for (std::size_t i = 0; i < 200; ++i) {
    narrow[i] = bfloat16(x[i]);
    CHECK(error[i] == x[i] - static_cast<float>(bfloat16(x[i])));
  }
  call_kernel<ct::op::compensated_sum>(plain, narrow.in(), error.in(), sum.out());
  for (std::size_t i = 0; i < 200; ++i) CHECK(sum[i] == x[i]);
}

TEST_CASE("rounding_error: a weight that rounds to an infinity has none, so that it stays infinite") {
  constexpr auto infinity = std::numeric_limits<float>::infinity(), largest = std::numeric_limits<float>::max();
  array<float> x(shape(1, 5)), error(shape(1, 5)), sum(shape(1, 5));
  array<bfloat16> narrow(shape(1, 5));
  float const values[] = {infinity, -infinity, largest, -largest, std::numeric_limits<float>::quiet_NaN()};
  for (std::size_t i = 0; i < 5; ++i) x[i] = values[i], narrow[i] = bfloat16(values[i]);
  call_kernel<ct::op::rounding_error>(plain, x.in(), error.out());
  call_kernel<ct::op::compensated_sum>(plain, narrow.in(), error.in(), sum.out());
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(error[i] == 0);
    CHECK(sum[i] == (values[i] > 0 ? infinity : -infinity));
  }
  CHECK(std::isnan(sum[4]));
}
