#include "programs.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

namespace {

template <class optimizer> constexpr auto step_of(dtype real = dtype::f32, int micro_batches = 1) {
  return in_place(coalesce(updated<optimizer>(built<gpt2_task>(real), micro_batches)));
}
constexpr std::int64_t parameters = [] {
  auto const p = built<gpt2_task>();
  std::int64_t total = 0;
  for (auto const& info : p.values)
    if (is_parameter(info.role)) total += p.iterations(info) * info.shape.elements();
  return total;
}();
// table, positions, head norm; norms, qkv, projection, up and down with biases in each layer
static_assert(parameters == 11 * 8 + 6 * 8 + 2 * 8 + 5 * (4 * 8 + 24 * 8 + 24 + 8 * 8 + 8 + 32 * 8 + 32 + 8 * 32 + 8));

constexpr auto adamw = step_of<optimizer::adamw>();
constexpr auto memory = memory_of(adamw, plan_memory(adamw), 0);
// 16 bytes a parameter: weight, gradient and two states of 4.
static_assert(memory.weights == bytes(4 * parameters) && memory.gradients == bytes(4 * parameters));
static_assert(memory.optimizer_state == bytes(8 * parameters) && memory.master_weights == bytes(0));
static_assert(memory.communication == bytes(0) && memory.offloaded == bytes(0));
static_assert(memory.weights + memory.gradients + memory.optimizer_state + memory.activations + memory.workspace ==
              memory.peak);
static_assert(memory.workspace > bytes(0) && memory.activations > bytes(0));

constexpr auto sgd = step_of<optimizer::sgd>();
static_assert(memory_of(sgd, plan_memory(sgd), 0).optimizer_state == bytes(0));
constexpr auto momentum = step_of<optimizer::momentum>(dtype::f64);
static_assert(memory_of(momentum, plan_memory(momentum), 0).optimizer_state == bytes(8 * parameters));

// The peak covers the entries that need more.
static_assert(memory_of(adamw, plan_memory(adamw), 1 << 24).peak == bytes(1 << 24));

// Work: a product of 2 rows each of 3 tokens with [5, 4], in the way forward, twice on the way back.
constexpr auto tied_forward = dead_code_elimination(tied_task::build(entry::predict, dtype::f32));
constexpr auto products = [](program const& p) {
  auto q = p;
  q.nodes.count = 0;
  for (auto const& n : p.nodes)
    if (n.kind != node_kind::call || n.op == &info_of<op::linear> || n.op == &info_of<op::linear_input_gradient> ||
        n.op == &info_of<op::linear_weight_gradient>)
      q.add_node(n);
  return work_of(q).flops;
};
static_assert(products(tied_forward) == 2.0 * 6 * 5 * 4);
static_assert(products(differentiated(built<tied_task>())) == 3 * 2.0 * 6 * 5 * 4);
static_assert(work_of(tied_forward).collectives == 0);

} // namespace

TEST_CASE("launches are counted with their loops") {
  for (int every : {0, 1, 2, 3, 4, 5, 7})
    for (int micro_batches : {1, 3}) {
      auto const p = recompute(updated(built<gpt2_task>(), micro_batches), every);
      std::int64_t launches = 0;
      // Every op that occurs, once.
      for (int i = 0; i < p.nodes.size(); ++i) {
        bool seen = p.nodes[i].kind != node_kind::call;
        for (int j = 0; j < i; ++j) seen = seen || p.nodes[j].op == p.nodes[i].op;
        if (!seen) launches += runs(p, p.nodes[i].op);
      }
      CAPTURE(every);
      CAPTURE(micro_batches);
      CHECK(work_of(p).kernel_launches == launches);
    }
}

TEST_CASE("recomputing costs one forward pass of the layers") {
  auto const keep = updated(built<gpt2_task>());
  auto const none = products(keep);
  double layers = products(built<gpt2_task>()) - 2.0 * 12 * 11 * 8; // without the head
  for (int every : {1, 2, 3, 5}) {
    auto const again = products(recompute(keep, every));
    CHECK(again > none);
    CHECK(again <= none + layers * 1.0001);
  }
}
