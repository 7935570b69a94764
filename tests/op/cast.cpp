#include "call_kernel.hpp"
#include "check_gradients.hpp"

#include <constrain/op/cast/kernel.hpp>
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace ct = constrain;

static_assert(sizeof(ct::bfloat16) == 2);

TEST_CASE("bfloat16 rounds to nearest, ties to even, and keeps what is special") {
  auto const bits = [](float x) { return ct::bfloat16(x).bits; };
  CHECK(bits(1.0f) == 0x3F80);
  CHECK(bits(-2.0f) == 0xC000);
  CHECK(bits(std::bit_cast<float>(0x3F808000u)) == 0x3F80); // a tie, down to even
  CHECK(bits(std::bit_cast<float>(0x3F818000u)) == 0x3F82); // a tie, up to even
  CHECK(bits(std::bit_cast<float>(0x3F808001u)) == 0x3F81);
  CHECK(bits(std::numeric_limits<float>::max()) == 0x7F80); // rounds beyond the largest: infinity
  CHECK(bits(std::numeric_limits<float>::infinity()) == 0x7F80);
  CHECK(std::isnan(float(ct::bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isnan(float(ct::bfloat16(std::bit_cast<float>(0xFF800001u))))); // must not become an infinity
  CHECK(bits(-0.0f) == 0x8000);
}

TEST_CASE("the gradient of a cast has the type of the input") {
  ct::builder out;
  ct::ref const x{out.new_value({ct::dtype::bf16, ct::shape(2, 3)}, ct::role::activation, 0), ct::at::current};
  auto const n = out.call<ct::op::cast>({x}, {}, {.to = ct::dtype::f32});
  ct::backward rule(out, n);
  bool written = false;
  rule.set_needs(0, {}, &written);
  rule.set_gradient(n.outputs[0]);
  n.op->gradient(rule);
  REQUIRE(rule.contributions().size() == 1);
  CHECK(rule.contributions()[0].gradient.type() == ct::dtype::bf16);
}

namespace {

// In fp64 the cast keeps every bit, so that differences of the loss show the rule.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    return ct::linear("head", ct::emit<ct::op::cast>({ct::silu(x)}, {.to = ct::dtype::f64}), 7);
  }
};

} // namespace

TEST_CASE("cast: gradients") {
  constrain::test::check_gradients<ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>>();
}

TEST_CASE("every bfloat16 comes back from float unchanged, and neighbours round to it") {
  for (std::uint32_t b = 0; b < 0x10000; ++b) {
    auto const x = std::bit_cast<float>(b << 16);
    if (std::isnan(x)) continue;
    CHECK(ct::bfloat16(x).bits == b);
    if (!std::isfinite(x)) continue;
    CHECK(ct::bfloat16(std::bit_cast<float>((b << 16) + 0x7FFFu)).bits == b);
  }
}
