#include "simulate.hpp"

#include <constrain/pass/join_slices.hpp>
#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr value start(value tokens, int width) {
  return linear("in", embedding("token", tokens, {.vocabulary = 5, .width = 4}), width);
}
// Slices that cover a tensor, in a different order than in memory.
struct covered {
  constexpr value operator()(value tokens) const {
    auto const x = start(tokens, 12);
    auto const c = silu(slice(x, 2, 8, 4)), a = gelu(slice(x, 2, 0, 4)), b = silu(slice(x, 2, 4, 4));
    return linear("head", a * b + c, 5);
  }
};
// Slices side by side that do not cover it.
struct uncovered {
  constexpr value operator()(value tokens) const {
    auto const x = start(tokens, 12);
    return linear("head", silu(slice(x, 2, 4, 3)) * gelu(slice(x, 2, 1, 3)), 5);
  }
};
// Slices that overlap, or leave gaps: their gradients are added.
template <int begin> struct added {
  constexpr value operator()(value tokens) const {
    auto const x = start(tokens, 12);
    return linear("head", silu(slice(x, 2, 0, 4)) * gelu(slice(x, 2, begin, 4)), 5);
  }
};
template <auto model>
constexpr program before = differentiated(built<task<model, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>>());
template <auto model> constexpr program after = join_slices(before<model>);
constexpr int pads(program const& p) { return calls(p, &info_of<op::pad>); }
constexpr int joins(program const& p) { return calls(p, &info_of<op::concatenate>); }
constexpr int sums(program const& p) { return calls(p, &info_of<op::add>); }

static_assert(pads(before<covered{}>) == 3 && joins(before<covered{}>) == 0);
static_assert(pads(after<covered{}>) == 0 && joins(after<covered{}>) == 2 && verify(after<covered{}>).ok());
static_assert(sums(before<covered{}>) - sums(after<covered{}>) == 2);
static_assert(pads(after<uncovered{}>) == 1 && joins(after<uncovered{}>) == 1 && verify(after<uncovered{}>).ok());
static_assert(same(after<added<2>{}>, before<added<2>{}>) && same(after<added<5>{}>, before<added<5>{}>));
static_assert(same(join_slices(after<covered{}>), after<covered{}>));
static_assert(same(join_slices(built<gpt2_task>()), built<gpt2_task>()));

// The joined slice is as long as both together and begins with the first.
constexpr node of(program const& p, op_info const* op) {
  for (auto const& n : p.nodes)
    if (n.op == op) return n;
  return node();
}
constexpr auto padded = unpack<op::pad::options>(of(after<uncovered{}>, &info_of<op::pad>).attributes);
static_assert(padded.dimension == 2 && padded.begin == 1 && padded.extent == 12);
static_assert(after<uncovered{}>.values[of(after<uncovered{}>, &info_of<op::concatenate>).outputs[0].value].shape ==
              shape(2, 3, 6));

} // namespace

TEST_CASE("joined gradients of slices are planned like any other value") {
  for (auto const& p : {after<covered{}>, after<uncovered{}>, after<added<2>{}>}) {
    auto const f = in_place(slice_views(coalesce(update<optimizer::adamw>(p))));
    CHECK(verify(f) == diagnosis{});
    CHECK(simulate(f, plan_memory(f)).errors == std::vector<std::string>{});
  }
}
