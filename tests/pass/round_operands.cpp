#include "programs.hpp"

#include <constrain/pass/round_operands.hpp>
#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

constexpr auto before = differentiated(built<gpt2_task>());
constexpr auto after = round_operands(before);
static_assert(verify(after).ok());

/// The operands of the GEMMs in a program.
constexpr int factors(program const& p) {
  int count = 0;
  for (auto const& n : p.nodes)
    for (int k = 0; n.kind == node_kind::call && k < n.inputs.size(); ++k)
      count += (n.op->gemm_operands >> k & 1u) != 0 ? 1 : 0;
  return count;
}

/// Whether every operand of a GEMM was rounded by one of the two calls right before it.
constexpr bool are_rounded(program const& p) {
  for (int i = 0; i < p.nodes.size(); ++i) {
    auto const& n = p.nodes[i];
    for (int k = 0; n.kind == node_kind::call && k < n.inputs.size(); ++k) {
      if ((n.op->gemm_operands >> k & 1u) == 0) continue;
      bool found = false;
      for (int before : {i - 1, i - 2})
        found =
            found || (calls(p.nodes[before], info_of<op::round_to_tf32>) && p.nodes[before].outputs[0] == n.inputs[k]);
      if (!found) return false;
    }
  }
  return true;
}

// Two operands of each linear layer, and of both of its gradients.
static_assert(factors(before) > 0 && factors(before) == factors(after));
static_assert(calls(after, &info_of<op::round_to_tf32>) == factors(before));
static_assert(are_rounded(after) && !are_rounded(before));
static_assert(after.nodes.size() == before.nodes.size() + factors(before));

// Only fp32 is rounded.
constexpr auto wide = round_operands(differentiated(built<gpt2_task>(dtype::f64)));
static_assert(calls(wide, &info_of<op::round_to_tf32>) == 0);

} // namespace

TEST_CASE("round_operands: a loop over rows does not wait for the shards of other ranks") {
  using wide_task = task<gpt2{.layers = 1, .heads = 2, .width = 16, .vocabulary = 97, .context = 32}, causal_lm,
                         micro_batch{.sequences = 2}>;
  auto const looped = loop_over_rows(updated(built<wide_task>()), 0);
  CHECK(loops(looped) > loops(updated(built<wide_task>())));
  auto const sharded = partition(round_operands(looped), parallel::zero<3, 2>::value);
  CHECK(verify(sharded).ok());
}

TEST_CASE("round_operands: a layer reads its factors rounded") {
  auto const text = print(round_operands(built<tied_task>()));
  CAPTURE(text);
  CHECK(text.find("= round_to_tf32(table)") != std::string::npos);
}
