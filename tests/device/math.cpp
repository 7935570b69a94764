#include "constrain/device/math.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace math = constrain::math;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// The largest error in units of the last place over floats of every exponent and both signs.
template <class function, class reference_function>
double worst_error(function const& f, reference_function const& reference) {
  double worst = 0;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 4099) { // a prime: no pattern in the low bits
    float const x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    double const exact = reference(static_cast<double>(x));
    auto const rounded = static_cast<float>(exact);
    float const y = f(x);
    if (std::isnan(rounded) || std::isinf(rounded)) {
      bool const same = std::isnan(rounded) ? std::isnan(y) : y == rounded;
      if (!same) return infinity;
      continue;
    }
    if (!std::isfinite(y)) return infinity;
    int exponent = -149;
    if (exact != 0) std::frexp(exact, &exponent);
    worst = std::max(worst, std::abs(y - exact) / std::ldexp(1.0, std::max(exponent - 24, -149)));
  }
  return worst;
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

} // namespace

TEST_CASE("float functions are within their stated bounds") {
  CHECK(worst_error([](float x) { return math::exp(x); }, [](double x) { return std::exp(x); }) <= 1.01);
  CHECK(worst_error([](float x) { return math::log(x); }, [](double x) { return std::log(x); }) <= 0.85);
  CHECK(worst_error([](float x) { return math::tanh(x); }, [](double x) { return std::tanh(x); }) <= 1.34);
  CHECK(worst_error([](float x) { return math::erf(x); }, [](double x) { return std::erf(x); }) <= 1.41);
  CHECK(worst_error([](float x) { return math::sigmoid(x); }, logistic) <= 1.97);
  CHECK(worst_error([](float x) { return math::sqrt(x); }, [](double x) { return std::sqrt(x); }) <= 0.5);
}

TEST_CASE("the gate is the sigmoid wherever a product with it is not lost") {
  auto const within = [](auto const& f) { return [f](auto x) { return std::abs(x) <= 87 ? f(x) : decltype(x){1}; }; };
  CHECK(worst_error(within([](float x) { return math::gate(x); }), within(logistic)) <= 2.47);
  CHECK(math::gate(infinity) == 1);
  CHECK(math::gate(-infinity) == 0);
  CHECK(math::gate(-88.5f) == 0);
  CHECK(math::gate(-88.3f) == doctest::Approx(logistic(-88.3)));
  CHECK(math::gate(-1e3) == logistic(-1e3)); // double: the sigmoid
  CHECK(math::finite(math::gate(not_a_number)));
}

TEST_CASE("exp at its limits") {
  CHECK(math::exp(0.0f) == 1.0f);
  CHECK(math::exp(-0.0f) == 1.0f);
  CHECK(math::exp(infinity) == infinity);
  CHECK(math::exp(-infinity) == 0.0f);
  CHECK(math::exp(88.72283f) < infinity);
  CHECK(math::exp(88.7229f) == infinity);
  CHECK(math::exp(-103.2789f) == 0x1p-149f);
  CHECK(math::exp(-104.0f) == 0.0f);
  CHECK(std::isnan(math::exp(not_a_number)));
}

TEST_CASE("exp_or_zero is exp where that is a normal number that does not overflow, and nothing below") {
  auto const within = [](auto const& f) { return [f](auto x) { return x >= -87 && x <= 88 ? f(x) : decltype(x){1}; }; };
  CHECK(worst_error(within([](float x) { return math::exp_or_zero(x); }),
                    within([](double x) { return std::exp(x); })) <= 1.01);
  CHECK(math::exp_or_zero(0.0f) == 1.0f);
  CHECK(math::exp_or_zero(-87.0f) == math::exp(-87.0f));
  CHECK(math::exp_or_zero(-87.001f) == 0.0f);
  CHECK(math::exp_or_zero(std::numeric_limits<float>::lowest()) == 0.0f);
  CHECK(math::exp_or_zero(-infinity) == 0.0f);
  CHECK(math::exp_or_zero(infinity) == infinity);
  CHECK(std::isnan(math::exp_or_zero(not_a_number)));
  CHECK(std::isnan(math::exp_or_zero(-not_a_number)));
  CHECK(math::exp_or_zero(-100.0) == std::exp(-100.0)); // double: exp
}

TEST_CASE("log at its limits") {
  CHECK(math::log(1.0f) == 0.0f);
  CHECK(math::log(0.0f) == -infinity);
  CHECK(math::log(-0.0f) == -infinity);
  CHECK(math::log(infinity) == infinity);
  CHECK(math::log(0x1p-149f) == doctest::Approx(-149 * std::log(2.0)));
  CHECK(std::isnan(math::log(-1.0f)));
  CHECK(std::isnan(math::log(-infinity)));
  CHECK(std::isnan(math::log(not_a_number)));
}

TEST_CASE_TEMPLATE("tanh, erf and sigmoid at their limits", real, float, double) {
  constexpr real limit = std::numeric_limits<real>::infinity();
  CHECK(math::tanh(limit) == 1);
  CHECK(math::tanh(-limit) == -1);
  CHECK(math::erf(limit) == 1);
  CHECK(math::erf(-limit) == -1);
  CHECK(math::sigmoid(limit) == 1);
  CHECK(math::sigmoid(-limit) == 0);
  CHECK(math::sigmoid(real{0}) == real(0.5));
  CHECK(std::signbit(math::tanh(real{-0.0})));
  CHECK(std::signbit(math::erf(real{-0.0})));
  CHECK_FALSE(std::signbit(math::tanh(real{0})));
  CHECK(std::isnan(math::tanh(std::numeric_limits<real>::quiet_NaN())));
  CHECK(std::isnan(math::erf(std::numeric_limits<real>::quiet_NaN())));
  CHECK(std::isnan(math::sigmoid(std::numeric_limits<real>::quiet_NaN())));
}

TEST_CASE("sqrt is correctly rounded, with its signs and limits") {
  for (std::uint32_t bits = 0; bits < 0x7f800000u; bits += 1021) {
    float const x = std::bit_cast<float>(bits);
    REQUIRE(math::sqrt(x) == std::sqrt(x));
  }
  CHECK(std::signbit(math::sqrt(-0.0f)));
  CHECK(math::sqrt(infinity) == infinity);
  CHECK(std::isnan(math::sqrt(-1.0f)));
  CHECK(std::isnan(math::sqrt(not_a_number)));
}

TEST_CASE_TEMPLATE("finite looks at bits", real, float, double) {
  static_assert(math::finite(real{0}));
  static_assert(math::finite(std::numeric_limits<real>::lowest()));
  static_assert(math::finite(std::numeric_limits<real>::denorm_min()));
  static_assert(!math::finite(std::numeric_limits<real>::infinity()));
  static_assert(!math::finite(-std::numeric_limits<real>::infinity()));
  static_assert(!math::finite(std::numeric_limits<real>::quiet_NaN()));
  real volatile zero = 0;
  CHECK_FALSE(math::finite(real{1} / zero));
  CHECK_FALSE(math::finite(zero / zero));
}
