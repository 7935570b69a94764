#include "programs.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr auto before = dead_code_elimination(remove_training_ops(chain_task<3>::build(entry::predict, dtype::f32)));

// Kept nodes make the program that it was.
static_assert(same(rewrite(before, [](builder& out, node const& n, int) { out.program.add_node(n); }), before));

/// Every silu becomes two.
constexpr auto twice = rewrite(before, [](builder& out, node const& n, int) {
  if (!calls(n, info_of<op::elementwise<op::silu>>)) return out.program.add_node(n);
  node first = n;
  first.outputs.count = 0;
  node second = n;
  second.inputs[0] = out.append(*n.op, first).outputs[0];
  out.append(*n.op, second);
});
static_assert(calls(twice, &info_of<op::elementwise<op::silu>>) == 2);
static_assert(verify(twice).ok());

// A new value is in the loops around the node that computes it.
static_assert(twice.values.size() == before.values.size() + 1);
static_assert(twice.values[before.values.size()].axes == before.values[6].axes);
static_assert(twice.values[before.values.size()].axes.size() == 1);

/// The loop depth of each node.
constexpr auto depths(program const& p, int begin, int end) {
  fixed_vector<int, program::maximum_nodes> depths;
  auto out = without_nodes(p);
  rewrite_nodes(out, p, begin, end, [&](builder& b, node const&, int) { depths.push_back(b.enclosing.size()); });
  return depths;
}
static_assert(depths(before, 0, before.nodes.size()) ==
              decltype(depths(before, 0, 0)){{0, 0, 0, 1, 1, 1, 1, 0, 0, 0}, 10});
static_assert(depths(before, 3, 5) == decltype(depths(before, 0, 0)){{0, 0}, 2});

// Calls that a pass adds have random keys that no call of the model has, and each has its own.
constexpr auto model = built<tagger_task>();
constexpr auto appended = [] {
  builder out;
  out.program = model;
  value const loss{out, model.result("loss")};
  out.call<op::dropout>({dropout(loss).where(), model.result("loss")});
  return out.program;
}();
constexpr auto inserted = rewrite(appended, [](builder& out, node const& n, int) {
  if (n.random_key == 1) dropout(value{out, n.inputs[0]});
  out.program.add_node(n);
});
constexpr auto random_keys_of = [](program const& p) {
  fixed_vector<int, 8> keys;
  for (auto const& n : p.nodes)
    if (n.random_key != 0) keys.push_back(n.random_key);
  return keys;
};
static_assert(random_keys_of(model) == fixed_vector<int, 8>{{1}, 1});
static_assert(random_keys_of(appended) == fixed_vector<int, 8>{{1, 2, 3}, 3});
static_assert(random_keys_of(inserted) == fixed_vector<int, 8>{{4, 1, 2, 3}, 4});

constexpr program refused() {
  auto p = before;
  p.fail({why::too_many_operands, 7});
  return rewrite(p, [](builder&, node const&, int) {});
}
static_assert(refused().failure.reason == why::too_many_operands && refused().nodes.size() == before.nodes.size());

} // namespace

TEST_CASE("a rewritten program, in full") {
  CHECK(print(twice) == "%2 f32 [2, 3, 4] = embedding(token.weight, %0)\n"
                        "%3@initial f32 [2, 3, 4] = copy(%2)\n"
                        "loop block 3\n"
                        "  %5 f32 [2, 3, 4] = linear(%3@current, block.up.weight)\n"
                        "  %11 f32 [2, 3, 4] = elementwise(%5)\n"
                        "  %6 f32 [2, 3, 4] = elementwise(%11)\n"
                        "  %7 f32 [2, 3, 4] = add(%3@current, %6)\n"
                        "  %3@next f32 [2, 3, 4] = copy(%7)\n"
                        "%9 f32 [2, 3, 5] = linear(%3@final, head.weight)\n"
                        "%10 f32 [2, 3, 5] = copy(%9)\n");
}
