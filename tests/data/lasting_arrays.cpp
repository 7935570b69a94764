#include <constrain/data/examples.hpp>
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

// Examples do not take temporary arrays, which would leave them with views of freed memory.

namespace ct = constrain;
using ct::data::examples, ct::data::lasting_arrays;

namespace {

using integers = std::vector<std::int32_t>;
using reals = std::vector<float>;

static_assert(std::is_constructible_v<examples, integers const&, integers const&>);
static_assert(!std::is_constructible_v<examples, integers, integers const&>);
static_assert(!std::is_constructible_v<examples, integers const&, integers>);
static_assert(!std::is_constructible_v<examples, integers, integers>);

template <class array> constexpr bool is_input_of_two = requires(array&& a, integers const& x) {
  examples({x, std::forward<array>(a)}, x);
};
template <class array> constexpr bool is_label_of_two = requires(array&& a, integers const& x) {
  examples(x, {std::forward<array>(a), x});
};
template <class array> constexpr bool is_one_of_two = is_input_of_two<array>&& is_label_of_two<array>;
static_assert(is_one_of_two<integers&> && is_one_of_two<reals const&> && is_one_of_two<std::array<double, 2>&>);
static_assert(is_one_of_two<std::span<float>> && is_one_of_two<ct::array_view>);
template <class array> constexpr bool is_refused = !is_input_of_two<array> && !is_label_of_two<array>;
static_assert(is_refused<integers> && is_refused<reals const> && is_refused<std::array<double, 2>>);

} // namespace

TEST_CASE("a list of lasting arrays is the list of their views") {
  integers const x{1, 2, 3};
  reals const y{4, 5};
  std::array<double, 1> const z{6};
  lasting_arrays const one(x), several{x, y, std::span(z)}, pointer(x.data(), 2), again(ct::array_list{y, z});
  REQUIRE(one.size() == 1);
  CHECK(one[0].integers().data() == x.data());
  REQUIRE(several.size() == 3);
  CHECK(several[1].as<float>().data() == y.data());
  CHECK(several[2].as<double>()[0] == 6);
  CHECK(pointer[0].size() == 2);
  CHECK(again.size() == 2);
  // Views beyond the capacity are not kept, but counted.
  CHECK(lasting_arrays{x, x, x, x, x, x, x, x, x}.size() == 9);
}
