#include <constrain/base/units.hpp>
#include <doctest/doctest.h>

#include <concepts>
#include <cstdint>
#include <type_traits>

using namespace constrain;

namespace {

template <class a, class b> concept comparable = requires(a x, b y) { x < y; };
template <class a, class b> concept addable = requires(a x, b y) { x + y; };

// A number with a unit combines only with numbers of the same unit.
static_assert(comparable<optimizer_steps, optimizer_steps> && comparable<bytes, bytes> && addable<bytes, bytes>);
static_assert(!comparable<optimizer_steps, micro_steps>);
static_assert(!comparable<micro_steps, token_count>);
static_assert(!comparable<optimizer_steps, bytes>);
static_assert(addable<optimizer_steps, optimizer_steps> && addable<optimizer_steps, int>); // so many more
static_assert(!addable<optimizer_steps, micro_steps> && !addable<token_count, bytes>);
static_assert(optimizer_steps(3) + 4 == 7 && micro_steps(3) - micro_steps(1) == 2);
static_assert(!std::convertible_to<micro_steps, optimizer_steps> &&
              !std::constructible_from<optimizer_steps, micro_steps>);

// It comes from an integer where an option is written, bytes only where one says so, and it never turns back.
static_assert(std::convertible_to<int, optimizer_steps> && !std::convertible_to<int, bytes>);
static_assert(std::constructible_from<bytes, int> && !std::convertible_to<optimizer_steps, std::int64_t>);
static_assert(!comparable<bytes, int>);
struct options {
  optimizer_steps steps = 0;
};
static_assert(options{.steps = 500}.steps == optimizer_steps(500) && options{}.steps < optimizer_steps(1));

static_assert(kibibytes(1) == bytes(1024) && mebibytes(3) == kibibytes(3 * 1024) &&
              gibibytes(8).count() == std::int64_t{8} << 30);
static_assert(mebibytes(2) - kibibytes(1024) == mebibytes(1) && mebibytes(1) + mebibytes(1) <= mebibytes(2));
static_assert(kibibytes(1536).mebibytes() == 1.5);
template <std::int64_t n> concept fits_in_gibibytes = requires { typename std::bool_constant<(gibibytes(n), true)>; };
static_assert(fits_in_gibibytes<(std::int64_t{1} << 33) - 1> && !fits_in_gibibytes<std::int64_t{1} << 33>);
static_assert(fits_in_gibibytes<-(std::int64_t{1} << 33)> && !fits_in_gibibytes<-(std::int64_t{1} << 33) - 1>);

// Whole multiples and parts of bytes are bytes, bytes over bytes are a ratio, and there are no half or square ones.
constexpr bytes weights(1000);
constexpr bytes changed() {
  auto b = weights;
  b += bytes(24), b *= 2, b -= bytes(48), b /= 4;
  return b;
}
template <class a, class b> concept multipliable = requires(a x, b y) { x* y; };
static_assert(2 * weights == bytes(2000) && weights * 2 == bytes(2000) && weights * std::size_t{3} == bytes(3000));
static_assert(weights / 3 == bytes(333) && changed() == bytes(500));
static_assert(bytes(2500) / weights == 2.5 && std::same_as<decltype(weights / weights), double>);
static_assert(!addable<bytes, int> && !multipliable<bytes, double> && !multipliable<bytes, bytes>);

// They can be template arguments.
template <bytes limit> struct budget {};
static_assert(std::same_as<budget<bytes(4)>, budget<2 * bytes(2)>> &&
              !std::same_as<budget<bytes(4)>, budget<bytes(5)>>);

static_assert(optimizer_step{}.number == 1); // the first, as in Adam's correction

} // namespace

TEST_CASE("units") {
  CHECK(bytes().count() == 0);
  CHECK(token_count(100'000).count() == 100'000);
  CHECK(micro_steps(3) > micro_steps(2));
}
