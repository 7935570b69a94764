#include "programs.hpp"

#include <constrain/pass/node_before_update.hpp>
#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

/// Where the update of every gradient may be: after all references to the gradient and its parameter, and only in loops
/// over axes of the parameter.
constexpr bool places_are_sound(program const& p) {
  nest const where(p);
  for (int v = 0; v < p.values.size(); ++v) {
    if (p.values[v].role != role::gradient) continue;
    int const place = detail::node_before_update(p, where, v);
    if (place < 0) return false;
    for (int i = place + 1; i < p.nodes.size(); ++i) {
      if (detail::refers_to(p, i, v) || detail::refers_to(p, i, p.values[v].belongs_to)) return false;
    }
    for (int loop = where.parent[place]; loop != nest::root; loop = where.parent[loop])
      if (!p.values[v].axes.contains(p.nodes[loop].axis)) return false;
  }
  return true;
}

/// How many gradients are updated inside a loop.
constexpr int updated_in_a_loop(program const& p) {
  nest const where(p);
  int count = 0;
  for (int v = 0; v < p.values.size(); ++v)
    if (p.values[v].role == role::gradient && where.parent[detail::node_before_update(p, where, v)] != nest::root)
      ++count;
  return count;
}

/// Whether every update has the same place if the reversed loops recompute the bodies of the forward loops: no forward
/// loop reads a parameter whose gradient is complete before the reversed loop.
constexpr bool recomputation_moves_nothing(program const& p) {
  nest const where(p);
  for (int v = 0; v < p.values.size(); ++v)
    if (p.values[v].role == role::gradient &&
        detail::node_before_update(p, where, v, true) != detail::node_before_update(p, where, v))
      return false;
  return true;
}

constexpr auto gpt = differentiated(built<gpt2_task>());
constexpr auto tied = differentiated(built<tied_task>());
constexpr auto blocks = differentiated(built<chain_task<3>>());
static_assert(places_are_sound(gpt) && places_are_sound(tied) && places_are_sound(blocks));
// Inside the loops: 12 parameters of a transformer's block, the one of the chain's. Outside: embeddings, norms, heads.
static_assert(updated_in_a_loop(gpt) == 12 && updated_in_a_loop(blocks) == 1 && updated_in_a_loop(tied) == 0);
static_assert(recomputation_moves_nothing(gpt) && recomputation_moves_nothing(tied));

/// A weight that the body of a repeat uses twice: several nodes of one loop refer to its gradient.
struct used_twice {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 5, .width = 4});
    x = repeat("block", 3, x, [](value x) {
      auto const weight = parameter(x, "weight", shape(4, 4), role::weight);
      return x + linear(silu(linear(x, weight)), weight);
    });
    return linear("head", x, 5, {.bias = false});
  }
};
constexpr auto twice = differentiated(built<task<used_twice{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>>());
static_assert(places_are_sound(twice) && updated_in_a_loop(twice) == 1);
static_assert(recomputation_moves_nothing(twice));

} // namespace

TEST_CASE("node_before_update: a gradient without references has none") {
  auto p = blocks;
  int gradient = 0;
  while (p.values[gradient].role != role::gradient) ++gradient;
  p.nodes.count = 0;
  CHECK(detail::node_before_update(p, nest(p), gradient) == -1);
}
