#include "policy/small_gpt.hpp"

#include <doctest/doctest.h>

#include <string>

// checkpoint::keep and checkpoint::budget change no bit, and a budget is kept.

namespace ct = constrain;
using namespace constrain::test;
using ct::checkpoint::keep, ct::checkpoint::budget;

namespace {

template <class... policies> using trainer = ct::trainer<small_gpt, policies...>;
template <class... policies> constexpr ct::bytes peak = ct::entries<small_gpt, ct::policies<policies...>>::memory.peak;
template <class... policies> constexpr double flops = ct::entries<small_gpt, ct::policies<policies...>>::work.flops;

/// A limit in the middle between keeping nothing and keeping everything.
template <class... policies> constexpr ct::bytes middle = (peak<policies...> + peak<keep<>, policies...>) / 2;

template <class... policies> std::vector<std::vector<double>> trained() {
  trainer<policies...> t({.learning_rate = 1e-2f}, {.seed = 3, .dropout = 0.2});
  for (int i = 0; i < 4; ++i) step(t, i);
  return weights(t);
}

template <class... policies> void compare() {
  constexpr auto limit = middle<policies...>;
  static_assert(peak<keep<>, policies...> < limit && limit < peak<policies...>);
  static_assert(peak<budget<limit>, policies...> <= limit);
  static_assert(flops<policies...> < flops<budget<limit>, policies...>);
  static_assert(flops<budget<limit>, policies...> <= flops<keep<>, policies...>);
  auto const expected = trained<policies...>();
  CHECK(trained<policies..., keep<>>() == expected);
  CHECK(trained<policies..., keep<ct::op::attention, ct::op::linear>>() == expected);
  CHECK(trained<policies..., budget<limit>>() == expected);
}

// With enough memory, nothing is recomputed; with the least possible memory, no more than with keep<>.
static_assert(flops<budget<peak<>>> == flops<>);
static_assert(peak<budget<peak<keep<>>>> <= peak<keep<>> && flops<budget<peak<keep<>>>> <= flops<keep<>>);
// More memory, less recomputation.
static_assert(flops<budget<peak<>>> <= flops<budget<middle<>>> &&
              flops<budget<middle<>>> <= flops<budget<peak<keep<>>>>);

} // namespace

TEST_CASE("recomputation: bit-identical in fp32, bf16 and fp16") {
  compare<>();
  compare<ct::precision::bf16, ct::accumulate<2>>();
  compare<ct::precision::fp16>();
}

TEST_CASE("recomputation: bit-identical without masters, and with updates in the backward pass") {
  using pure = ct::precision::pure_bf16;
  using rule = ct::optimizer::in_backward<ct::optimizer::adamw>;
  auto const expected = trained<pure, rule>();
  CHECK(trained<pure, rule, keep<>>() == expected);
  CHECK(trained<pure, rule, keep<ct::op::attention>>() == expected);
}

TEST_CASE("recomputation: planned bytes are used bytes, and names say the limit") {
  constexpr auto limit = middle<>;
  trainer<budget<limit>> t({}, {.measure_memory = true});
  step(t, 0);
  CHECK(t.used_bytes() == t.memory.peak);
  CHECK(t.memory.peak <= limit);
  using ct::policy_name;
  CHECK(policy_name<budget<ct::gibibytes(16)>>() == "checkpoint::budget<gibibytes(16)>");
  CHECK(policy_name<budget<ct::mebibytes(1000)>>() == "checkpoint::budget<mebibytes(1000)>");
  CHECK(policy_name<budget<ct::kibibytes(7)>>() == "checkpoint::budget<kibibytes(7)>");
  CHECK(policy_name<budget<ct::bytes(1025)>>() == "checkpoint::budget<bytes(1025)>");
  CHECK(policy_name<keep<ct::op::attention>>() == "checkpoint::keep<op::attention>");
}
