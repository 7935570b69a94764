#include "recomputation_programs.hpp"

#include <algorithm>
#include <vector>

using namespace constrain;
using namespace constrain::test;

namespace {

/// Maximum, over time, of the bytes of all values of the plan that do not persist.
std::int64_t live_bytes(program const& p) {
  auto const where = plan_memory(p);
  std::vector<std::int64_t> live(static_cast<std::size_t>(p.nodes.size()) + 2);
  for (int v = 0; v < p.values.size(); ++v) {
    auto const& b = where.buffers[v];
    if (b.offset < 0 || is_persistent(p.values[v].role)) continue;
    for (int i = b.born; i <= b.dies; ++i) live[static_cast<std::size_t>(i + 1)] += b.size;
  }
  return *std::max_element(live.begin(), live.end());
}

/// The cost of the clones that a choice of dropped nodes needs.
double cost_of_clones(program const& p, node_set const& dropped) {
  constrain::detail::rematerialization const forward(p);
  auto const placed = forward.clones_for(dropped);
  double cost = 0;
  for (int i = 0; i < forward.forward_nodes(); ++i)
    if (placed.before[i] != forward.never) cost += forward.cost_of(i);
  return cost;
}

/// Compares the estimates of all choices with the programs and plans.
void check_choices(program const& p) {
  recomputation_estimate const estimate(p);
  for (auto const choice : all_choices(estimate)) {
    CAPTURE(choice);
    auto const e = estimate.of(choice);
    auto const dropped = estimate.nodes(choice);
    CHECK(e.cost == doctest::Approx(cost_of_clones(p, dropped)));
    CHECK(e.bytes == live_bytes(in_place(slice_views(rematerialize(p, dropped)))));
  }
}

/// A chain of layers outside of repeats.
template <int layers> struct unrolled {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 8, .width = 8});
    for (int layer = 0; layer < layers; ++layer) x = x + linear(parameter_names[layer], silu(x), 8, {.bias = false});
    return linear("head", x, 8);
  }
  static constexpr char const* parameter_names[] = {
      "0",  "1",  "2",  "3",  "4",  "5",  "6",  "7",  "8",  "9",  "10", "11", "12", "13", "14", "15", "16", "17",
      "18", "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29", "30", "31", "32", "33", "34", "35"};
};

/// The sum of eight values; only the first has a gradient.
struct eight {
  static constexpr char const* name = "eight";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
  static constexpr void gradient(backward& b) { b.add(0, b.gradient()); }
};
/// A stack of `calls` calls, each of which reads the results of up to eight earlier calls.
template <int calls> struct wide {
  constexpr value operator()(value tokens) const {
    value x[calls];
    x[0] = silu(embedding("token", tokens, {.vocabulary = 8, .width = 8}));
    for (int i = 1; i < calls; ++i) {
      auto const read = [&](int k) { return x[i > k ? i - 1 - k : 0]; };
      x[i] = emit<eight>({read(0), read(1), read(2), read(3), read(4), read(5), read(6), read(7)});
    }
    return linear("head", silu(x[calls - 1]), 8);
  }
};

} // namespace

// 200 nodes read 8 results each, which are more than the estimate records.
TEST_CASE("recomputation_estimate: nodes whose reads exceed its capacity are kept") {
  auto const p = updated(built<task_of<wide<200>{}>>());
  recomputation_estimate const estimate(p);
  auto const all = estimate.of(estimate.all());
  auto const dropped = estimate.nodes(estimate.all());
  CHECK(all.cost == doctest::Approx(cost_of_clones(p, dropped)));
  CHECK(all.bytes == live_bytes(in_place(slice_views(rematerialize(p, dropped)))));
}

TEST_CASE("recomputation_estimate: without views, exactly the cost and the live bytes of the rematerialized program") {
  check_choices(updated(built<mixed_task>()));
  check_choices(updated(built<task_of<gated{}>>()));
  check_choices(updated(built<task_of<two_repeats{}>>()));
  check_choices(updated(built<task_of<flat{}>>()));
  check_choices(updated(built<task_of<gated{}>>(), 3));
}

TEST_CASE("recomputation_estimate: slices of attention's projection cost nothing and are dropped with the projection") {
  auto const p = updated(built<attention_task<3>>());
  recomputation_estimate const estimate(p);
  int slices = 0;
  for (int i = 0; i < p.nodes.size() && !p.nodes[i].backward; ++i) slices += calls(p.nodes[i], info_of<op::slice>);
  CHECK(slices == 3);
  CHECK(estimate.size() == 16);
  for (int g = 0; g < estimate.size(); ++g) {
    auto const nodes = estimate.nodes(std::uint64_t{1} << g);
    int of_group = 0;
    bool has_slice = false;
    for (int i = 0; i < p.nodes.size(); ++i)
      if (nodes.contains(i)) ++of_group, has_slice = has_slice || calls(p.nodes[i], info_of<op::slice>);
    CHECK(of_group == (has_slice ? 4 : 1));
  }
}

TEST_CASE("recomputation_estimate: in a program of more than 64 droppable nodes, like nodes are one group") {
  auto const p = updated(built<task_of<unrolled<36>{}>>());
  constrain::detail::rematerialization const forward(p);
  recomputation_estimate const estimate(p);
  CHECK(estimate.size() < 10);
  CHECK(estimate.nodes(estimate.all()) == forward.droppable());
  CHECK(estimate.of(estimate.all()).cost == doctest::Approx(cost_of_clones(p, forward.droppable())));
  CHECK(estimate.of(0).cost == 0);
  CHECK(estimate.of(0).bytes == live_bytes(in_place(p)));
}

TEST_CASE("recomputation_estimate: an estimate that reaches the cost limit stops there") {
  auto const p = updated(built<mixed_task>());
  recomputation_estimate const estimate(p);
  auto const cost = estimate.of(estimate.all()).cost;
  CHECK(estimate.of(estimate.all(), cost / 2).cost >= cost / 2);
  CHECK(estimate.of(estimate.all(), 2 * cost).cost == cost);
}
