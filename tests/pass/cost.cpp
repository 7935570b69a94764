#include "programs.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

// The memory of one of d ranks, by part, exact: bytes a parameter in a model whose tensors are multiples of d chunks,
// and what shards are rounded up to in one whose tensors are not.

namespace {

/// Matrices of 4096 elements, four chunks, and nothing else.
struct even_model {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 64, .width = 64});
    x = repeat("block", 3, x, [](value x) { return x + silu(linear("up", x, 64, {.bias = false})); });
    return linear("head", x, 64, {.bias = false});
  }
};
using even_task = task<even_model{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>;
using odd_task = task<gpt2{.layers = 2, .heads = 2, .width = 46, .vocabulary = 61, .context = 16}, causal_lm,
                      micro_batch{.sequences = 2}>;

constexpr auto even_fp32 = updated(built<even_task>(), 2);
constexpr auto even_bf16 = updated(built<even_task>(), 2, dtype::bf16);
constexpr auto odd_fp32 = updated(built<odd_task>(), 2);
constexpr auto odd_bf16 = updated(built<odd_task>(), 2, dtype::bf16);
constexpr std::int64_t even_parameters = 5 * 4096;

constexpr memory_plan rank_of(program const& p, int stage, int shards) {
  auto const final = in_place(slice_views(coalesce(partition(p, true, shards, stage))));
  return memory_of(final, plan_memory(final), 0);
}
/// The parts of parameters, copies, gradients and states that a rank stores.
constexpr std::int64_t stored(memory_plan const& m) {
  return (m.weights + m.master_weights + m.gradients + m.optimizer_state).count();
}

/// Whether each of d ranks stores `full + cut / d` bytes a parameter, for 2 and for 4 ranks.
constexpr bool stores(program const& p, int stage, std::int64_t full, std::int64_t cut) {
  bool all = true;
  for (int d : {2, 4}) all = all && stored(rank_of(p, stage, d)) * d == even_parameters * (full * d + cut);
  return all;
}
static_assert(stored(rank_of(even_bf16, 3, 1)) == 18 * even_parameters); // ddp
static_assert(stored(rank_of(even_fp32, 3, 1)) == 16 * even_parameters);
static_assert(stores(even_bf16, 1, 6, 12) && stores(even_fp32, 1, 8, 8));
static_assert(stores(even_bf16, 2, 2, 16) && stores(even_fp32, 2, 4, 12));
static_assert(stores(even_bf16, 3, 0, 18) && stores(even_fp32, 3, 0, 16));

// Gradients that share bytes (optimizer::in_backward), and workspace that shares their bytes at another time,
// count once.
template <class optimizer> constexpr memory_plan in_place_of(program const& p) {
  auto const final = in_place(slice_views(coalesce(updated<optimizer>(p))));
  return memory_of(final, plan_memory(final), 0);
}
constexpr bool adds_up(memory_plan const& m) {
  bytes all;
  for (auto part :
       {m.weights, m.master_weights, m.gradients, m.optimizer_state, m.activations, m.workspace, m.communication}) {
    if (part < bytes(0)) return false;
    all = all + part;
  }
  return m.shared >= bytes(0) && all - m.shared == m.peak;
}
template <class task> constexpr bool shares_gradients() {
  auto const at_the_end = in_place_of<optimizer::adamw>(built<task>());
  auto const in_backward = in_place_of<optimizer::in_backward<optimizer::adamw>>(built<task>());
  return adds_up(at_the_end) && adds_up(in_backward) && in_backward.gradients < at_the_end.gradients;
}
static_assert(shares_gradients<even_task>() && shares_gradients<odd_task>());

// By part, on each of two ranks.
constexpr bool has(memory_plan const& m, std::int64_t weights, std::int64_t masters, std::int64_t gradients,
                   std::int64_t states) {
  constexpr auto n = even_parameters;
  return m.weights.count() == weights * n && m.master_weights.count() == masters * n &&
         m.gradients.count() == gradients * n && m.optimizer_state.count() == states * n;
}
static_assert(has(rank_of(even_bf16, 1, 2), 2, 2, 4, 4) && has(rank_of(even_fp32, 1, 2), 4, 0, 4, 4));
static_assert(has(rank_of(even_bf16, 2, 2), 2, 2, 2, 4) && has(rank_of(even_fp32, 2, 2), 4, 0, 2, 4));
static_assert(has(rank_of(even_bf16, 3, 2), 1, 2, 2, 4) && has(rank_of(even_fp32, 3, 2), 2, 0, 2, 4));

// Besides, a rank has the exchange buffer of the collectives, and from stage 2 on the full gradient of one layer at a
// time, in fp32. In stage 3, a gathered parameter is free before its gradient is reduced.
constexpr std::int64_t exchange = 1 << 20, layer = 4096;
constexpr bool communicates(program const& p, int stage, std::int64_t bytes) {
  return rank_of(p, stage, 2).communication.count() == bytes && rank_of(p, stage, 4).communication.count() == bytes &&
         adds_up(rank_of(p, stage, 2)) && adds_up(rank_of(p, stage, 4));
}
static_assert(communicates(even_bf16, 1, exchange) && communicates(even_fp32, 1, exchange));
static_assert(communicates(even_bf16, 2, exchange + 4 * layer) && communicates(even_fp32, 2, exchange + 4 * layer));
static_assert(communicates(even_bf16, 3, exchange + 4 * layer) && communicates(even_fp32, 3, exchange + 4 * layer));

/// Elements of all tensors of the parameters with a copy and of the others, and of what a rank stores of their shards.
struct elements {
  std::int64_t copied = 0, kept = 0;
  std::int64_t copied_shards = 0, kept_shards = 0;
};
constexpr elements elements_of(program const& p, std::int64_t d) {
  elements all;
  for (int v = 0; v < p.values.size(); ++v) {
    auto const& info = p.values[v];
    if (!is_parameter(info.role)) continue;
    std::int64_t const one = info.shape.elements(), tensors = p.iterations(info);
    std::int64_t const chunks = (one + 1023) / 1024, rounded = (chunks + d - 1) / d * 1024;
    std::int64_t const shard = rounded < one ? rounded : one;
    (is_copied(p, v) ? all.copied : all.kept) += tensors * one;
    (is_copied(p, v) ? all.copied_shards : all.kept_shards) += tensors * shard;
  }
  return all;
}
constexpr bool exact(program const& p, int stage, int d) {
  auto const e = elements_of(p, d);
  auto const full = e.copied + e.kept, shards = e.copied_shards + e.kept_shards;
  auto const m = rank_of(p, stage, d);
  bool const all = stage == 3;
  return m.weights.count() == (all ? 2 * e.copied_shards + 4 * e.kept_shards : 2 * e.copied + 4 * e.kept) &&
         m.master_weights.count() == 4 * e.copied_shards && m.gradients.count() == 4 * (stage == 1 ? full : shards) &&
         m.optimizer_state.count() == 8 * shards;
}
// One plan each: clang limits the steps of one evaluation.
static_assert(exact(odd_bf16, 1, 3));
static_assert(exact(odd_bf16, 2, 3));
static_assert(exact(odd_bf16, 3, 3));
static_assert(exact(odd_fp32, 1, 2));
static_assert(exact(odd_fp32, 2, 2));
static_assert(exact(odd_fp32, 3, 2));

// In the elements of each tensor that one of 3 ranks stores: of the token embedding's 2806 (3 chunks) one chunk, and of
// a layer's 6348 (7), 2116 (3), 8464 (9) and 8464 three, one, three and three. The 736 of the position embedding and
// all vectors have one chunk, for which every rank reserves the memory.
constexpr auto of_three = elements_of(odd_bf16, 3);
static_assert(of_three.copied == 2806 + 736 + 2 * (6348 + 2116 + 8464 + 8464));
static_assert(of_three.copied_shards == 1024 + 736 + 2 * (3 + 1 + 3 + 3) * 1024);
static_assert(of_three.kept == 2 * (4 * 46 + 138 + 46 + 184 + 46) + 2 * 46 && of_three.kept_shards == of_three.kept);
// So three ranks store this much more than 6 + 12 / d bytes for a parameter with a copy, and 8 + 8 / d for another.
static_assert(3 * stored(rank_of(odd_bf16, 1, 3)) == (18 + 12) * of_three.copied + (24 + 8) * of_three.kept + 169336);
static_assert(169336 == 12 * (3 * 22240 - 54326) + 8 * (3 * 1288 - 1288));

// The squared norm of a stacked gradient reads the gradient of every layer, although its output has no axes.
constexpr cost cost_of_calls(program const& p, op_info const& op, std::string_view parameter) {
  cost all;
  detail::for_each_cost(p, [&](int i, cost const& c, double runs) {
    auto const& n = p.nodes[i];
    if (!calls(n, op) || n.inputs[0].value != gradient_of(p, parameter)) return;
    all.flops += runs * c.flops, all.bytes_read += runs * c.bytes_read, all.bytes_written += runs * c.bytes_written;
  });
  return all;
}
constexpr auto norm_of_stack = cost_of_calls(even_fp32, info_of<op::gradient_norm_squared>, "block.up.weight");
static_assert(norm_of_stack.flops == 3 * 2 * 4096 && norm_of_stack.bytes_read == 3 * 4 * 4096);
constexpr auto norm_of_head = cost_of_calls(even_fp32, info_of<op::gradient_norm_squared>, "head.weight");
static_assert(norm_of_head.flops == 2 * 4096 && norm_of_head.bytes_read == 4 * 4096 && norm_of_head.bytes_written == 8);
// Each of two ranks reads half of it, and writes the sum of each of its chunks.
constexpr auto sharded = cost_of_calls(partition(even_fp32, true, 2), info_of<op::chunk_squares>, "block.up.weight");
static_assert(sharded.flops == 3 * 2 * 2048 && sharded.bytes_read == 3 * 4 * 2048 &&
              sharded.bytes_written == 3 * 2 * 8);

} // namespace

TEST_CASE("a rank stores whole chunks of each tensor, and nothing else") {
  for (int d : {2, 3, 4, 5})
    for (int stage : {1, 2, 3}) {
      CAPTURE(d);
      CAPTURE(stage);
      CHECK(exact(odd_bf16, stage, d));
      CHECK(exact(odd_fp32, stage, d));
    }
}
