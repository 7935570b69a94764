#include "simulate.hpp"

#include <constrain/pass/divide.hpp>
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace constrain;
using namespace constrain::test;

// Which collectives a program gets, and where. That sharding keeps every byte and every number is tested in
// memory_planning.cpp and by several processes (comm/).

namespace {

/// Ops of passes that work on gradients: y = f(x), for full tensors and for shards, and y += f(x).
struct full_op {
  static constexpr char const* name = "full_op";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};
struct shard_op : full_op {
  static constexpr char const* name = "shard_op";
  static constexpr char const* layouts = "*, - -> *";
};
struct add_op {
  struct options {
    constrain::shape shape;
  };
  static constexpr char const* name = "add_op";
  static constexpr unsigned accumulating = 0b1;
  static constexpr inferred infer(operand_types const&, options const& o) { return inferred::one(dtype::f32, o.shape); }
};

/// The program with the nodes that f appends for each gradient, and the optimizer step behind them.
template <class function> constexpr program with_pass(program const& p, function const& f) {
  builder out;
  out.program = p;
  for_each_gradient(out, f);
  return update<optimizer::sgd>(out.program);
}
constexpr auto overwrite = [](value g) { g.owner().call<full_op>({g.where()}, {g.where()}); };
constexpr auto overwrite_shard = [](value g) { g.owner().call<shard_op>({g.where()}, {g.where()}); };
constexpr auto replace = [](value g) { // reads and overwrites in two nodes
  auto const next = emit<full_op>({g});
  g.owner().call<full_op>({next.where()}, {g.where()});
};
constexpr auto contribute = [](value g) { g.owner().call<add_op>({}, {g.where()}, {g.shape()}); };
constexpr auto read_norm = [](value g) {
  auto const norm = emit<op::gradient_norm_squared>({g});
  g.owner().call<shard_op>({g.where(), norm.where()}, {g.where()});
};

constexpr auto micro_batches = differentiated(built<chain_task<3>>(), 2);
constexpr auto once = differentiated(built<chain_task<3>>());
constexpr int gradients = 3;

constexpr int count(program const& p, op_info const& op) { return calls(p, &op); }

// One rank of parallel::tensor exchanges nothing.
constexpr auto of_one_rank = constrain::partition(update<optimizer::sgd>(micro_batches), parallel::tensor<1>::value);
static_assert(verify(of_one_rank).ok() && count(of_one_rank, info_of<op::all_reduce>) == 0 &&
              of_one_rank.nodes.size() == update<optimizer::sgd>(micro_batches).nodes.size());

// Without a pass, all gradients are reduced together before the norm.
constexpr auto plain = partition(update<optimizer::sgd>(micro_batches), true, 1);
static_assert(verify(plain).ok() && count(plain, info_of<op::all_reduce>) == gradients);

// With one, before the first node that reads a gradient: once, together, and for a stack in one call.
constexpr auto replicated = partition(with_pass(micro_batches, overwrite), true, 1);
static_assert(verify(replicated).ok() && count(replicated, info_of<op::all_reduce>) == gradients);
static_assert(count(replicated, info_of<op::local_shard>) == 0 && count(replicated, info_of<op::all_gather>) == 0);
constexpr int first_of(program const& p, op_info const& op) {
  for (int i = 0; i < p.nodes.size(); ++i)
    if (constrain::calls(p.nodes[i], op)) return i;
  return -1;
}
constexpr int first_reduction = first_of(replicated, info_of<op::all_reduce>);
static_assert(constrain::calls(replicated.nodes[first_reduction + 1], info_of<op::all_reduce>) &&
              constrain::calls(replicated.nodes[first_reduction + 2], info_of<op::all_reduce>));
static_assert(nest(replicated).parent[first_reduction] == nest::root &&
              first_of(replicated, info_of<full_op>) > first_reduction);

// In shards: a gradient is gathered for an op that works on full tensors, and each rank keeps its shard of the result.
constexpr auto full = partition(with_pass(micro_batches, overwrite), true, 2);
static_assert(verify(full).ok() && count(full, info_of<op::local_shard>) == gradients);
constexpr auto full_without = partition(update<optimizer::sgd>(micro_batches), true, 2);
static_assert(count(full, info_of<op::all_gather>) == count(full_without, info_of<op::all_gather>) + gradients);
static_assert(count(full, info_of<op::reduce_scatter>) == count(full_without, info_of<op::reduce_scatter>));
// An op that works on shards needs no exchange.
constexpr auto of_shards = partition(with_pass(micro_batches, overwrite_shard), true, 2);
static_assert(verify(of_shards).ok() && count(of_shards, info_of<op::local_shard>) == 0);
static_assert(count(of_shards, info_of<op::all_gather>) == count(full_without, info_of<op::all_gather>));
// The norm of one tensor: its chunks, the chunks of all ranks, their sum.
constexpr auto with_norm = partition(with_pass(micro_batches, read_norm), true, 2);
static_assert(verify(with_norm).ok() && count(with_norm, info_of<op::gradient_norm_squared>) == 0);
static_assert(count(with_norm, info_of<op::chunk_squares>) == 2 * gradients &&
              count(with_norm, info_of<op::gather_ranks>) == 2 * gradients);
constexpr int first_norm = first_of(with_norm, info_of<op::chunk_squares>);
static_assert(with_norm.values[with_norm.nodes[first_norm].outputs[0].value].shape == shape(1, 1));
constexpr auto const& cut_of_first = with_norm.nodes[first_norm];
static_assert(unpack<op::chunk_squares::options>(cut_of_first.attributes).elements ==
                  with_norm.values[cut_of_first.inputs[0].value].full_shape.elements() &&
              unpack<op::chunk_squares::options>(cut_of_first.attributes).shards == 2);
// The norm of a tensor that an op computes in full needs no exchange.
constexpr auto read_norm_of_computed = [](value g) {
  auto const norm = emit<op::gradient_norm_squared>({emit<full_op>({g})});
  g.owner().call<shard_op>({g.where(), norm.where()}, {g.where()});
};
constexpr auto computed_norm = partition(with_pass(micro_batches, read_norm_of_computed), true, 2);
static_assert(verify(computed_norm).ok());
static_assert(count(computed_norm, info_of<op::gradient_norm_squared>) == gradients &&
              count(computed_norm, info_of<op::chunk_squares>) == gradients);

// Contributions of two passes with a use between them are reduced apart.
constexpr auto three_passes = [](value g) { contribute(g), overwrite(g), contribute(g); };
constexpr auto late = partition(with_pass(micro_batches, three_passes), true, 1);
static_assert(verify(late).ok() && count(late, info_of<op::all_reduce>) == 2 * gradients);
// One rank in a group stores full tensors, in every stage: no gradient shares the buffer of its sum of contributions.
constexpr auto late_alone = partition(with_pass(micro_batches, three_passes), true, 1, 1);
static_assert(verify(late_alone).ok() && count(late_alone, info_of<op::all_reduce>) == 2 * gradients);
constexpr bool any_gradient_is_a_view(program const& p) {
  bool any = false;
  for (auto const& info : p.values) any = any || (info.role == role::gradient && info.view);
  return any;
}
static_assert(!any_gradient_is_a_view(late_alone) && !any_gradient_is_a_view(late));
constexpr auto late_shards = partition(with_pass(micro_batches, three_passes), true, 2);
static_assert(verify(late_shards).ok());
static_assert(count(late_shards, info_of<op::reduce_scatter>) ==
              count(full_without, info_of<op::reduce_scatter>) + 2 * gradients);

/// The program with a call behind the first node that contributes to a gradient, in the same loops.
constexpr program with_early_read(program const& p) {
  bool done = false;
  return update<optimizer::sgd>(rewrite(p, [&](builder& out, node const& n, int) {
    out.program.add_node(n);
    if (done || n.kind != node_kind::call || p.values[n.outputs[0].value].role != role::gradient) return;
    done = true;
    out.call<full_op>({n.outputs[0]}, {n.outputs[0]});
  }));
}
// A gradient is not complete in the loop over micro-batches, and is complete without this loop.
static_assert(partition(with_early_read(micro_batches), true, 1).failure.reason == why::partial_sum_is_read);
static_assert(partition(with_early_read(micro_batches), true, 2).failure.reason == why::partial_sum_is_read);
static_assert(verify(partition(with_early_read(once), true, 1)).ok() &&
              verify(partition(with_early_read(once), true, 2)).ok());

/// The program with a call on each whole stack of gradients, without loops.
template <class op> constexpr program with_stacks(program const& p) {
  builder out;
  out.program = p;
  for (int v = 0; v < p.values.size(); ++v)
    if (p.values[v].role == role::gradient) out.call<op>({{v, at::current}}, {{v, at::current}});
  return update<optimizer::sgd>(out.program);
}
static_assert(partition(with_stacks<full_op>(once), true, 2).failure.refusal ==
              refusal_with<refusals::stack_is_exchanged>());
static_assert(verify(partition(with_stacks<full_op>(once), true, 1)).ok());
static_assert(verify(partition(with_stacks<shard_op>(once), true, 2)).ok());

/// The program with a read of each whole stack of gradients, and a contribution to the stack, without loops.
constexpr program with_late_stacks(program const& p) {
  auto out = builder{with_stacks<full_op>(p)};
  for (int v = 0; v < p.values.size(); ++v)
    if (p.values[v].role == role::gradient) out.call<add_op>({}, {{v, at::current}}, {p.values[v].shape});
  return out.program;
}
// The ranks hold the sums, but the contributions are partial sums of them.
constexpr auto late_stacks = partition(with_late_stacks(once), true, 1).failure;
static_assert(late_stacks.refusal == refusal_with<refusals::stack_is_exchanged>() &&
              late_stacks.op == info_of<add_op>.label);
static_assert(late_stacks.held == layout::replicated && late_stacks.needed == layout::partial);

/// The program with `calls...` on each gradient that has no axes, in a loop over the layers.
template <class... calls> constexpr program with_loop(program const& p) {
  builder out;
  out.program = p;
  int layers = -1;
  for (auto const& info : p.values)
    if (info.role == role::gradient && !info.axes.empty()) layers = info.axes[0];
  out.open(layers, false);
  for (int v = 0; v < p.values.size(); ++v)
    if (p.values[v].role == role::gradient && p.values[v].axes.empty())
      (out.call<calls>({{v, at::current}}, {{v, at::current}}), ...);
  out.close();
  return update<optimizer::sgd>(out.program);
}
// The tensor that is gathered before a loop serves one call of the loop that writes over it, and no second one.
static_assert(verify(partition(with_loop<full_op>(once), true, 2)).ok());
constexpr auto loop_refusal = refusal_with<refusals::loop_writes_gathered_value>();
static_assert(partition(with_loop<full_op, full_op>(once), true, 2).failure.refusal == loop_refusal);
static_assert(partition(with_loop<full_op, shard_op>(once), true, 2).failure.refusal == loop_refusal);
static_assert(partition(with_loop<shard_op, full_op>(once), true, 2).failure.refusal == loop_refusal);
static_assert(verify(partition(with_loop<shard_op, shard_op>(once), true, 2)).ok());
static_assert(verify(partition(with_loop<full_op, full_op>(once), true, 1)).ok());

/// The program with an op that reads the loss behind the loops.
constexpr program with_loss_read(program const& p) {
  builder out;
  out.program = p;
  auto const read = emit<full_op>({value{out, p.result("loss")}});
  out.program.values[read.where().value].role = role::result;
  return update<optimizer::sgd>(out.program);
}
constexpr auto loss_read = partition(with_loss_read(micro_batches), true, 1);
static_assert(verify(loss_read).ok() && count(loss_read, info_of<op::all_reduce_small>) == 1);
static_assert(first_of(loss_read, info_of<op::all_reduce_small>) < first_of(loss_read, info_of<full_op>));

// Stage 1 reduces each gradient once, after all micro-batches; stages 2 and 3 once a micro-batch, inside the loop. Only
// stage 3 gathers parameters for the calls that read them; the others gather each after its update.
constexpr program of_stage(int stage) { return partition(update<optimizer::adamw>(micro_batches), true, 2, stage); }
constexpr auto stage_1 = of_stage(1), stage_2 = of_stage(2), stage_3 = of_stage(3);
constexpr bool only_in_loops(program const& p, op_info const& op) {
  bool all = true;
  int depth = 0;
  for (auto const& n : p.nodes) {
    if (n.kind == node_kind::loop) ++depth;
    if (n.kind == node_kind::end) --depth;
    if (n.kind == node_kind::call && n.op == &op) all = all && depth > 0;
  }
  return all;
}
static_assert(verify(stage_1).ok() && verify(stage_2).ok() && verify(stage_3).ok());
static_assert(count(stage_1, info_of<op::reduce_scatter>) == gradients &&
              count(stage_2, info_of<op::reduce_scatter>) == gradients);
static_assert(count(stage_1, info_of<op::all_gather>) == gradients);
static_assert(count(stage_2, info_of<op::all_gather>) == gradients);
static_assert(!only_in_loops(stage_1, info_of<op::reduce_scatter>));
static_assert(only_in_loops(stage_2, info_of<op::reduce_scatter>) &&
              only_in_loops(stage_3, info_of<op::reduce_scatter>));

/// The program without, or with a second copy of, the first call to an op.
constexpr program with_copies(program const& p, op_info const& op, int copies) {
  auto changed = without_nodes(p).program;
  bool found = false;
  for (auto const& n : p.nodes) {
    bool const is_first = !found && n.kind == node_kind::call && n.op == &op;
    for (int k = 0; k < (is_first ? copies : 1); ++k) changed.add_node(n);
    found = found || is_first;
  }
  return changed;
}
// Errors that `verify` finds: a sum that is not reduced, or reduced twice, and a full tensor that is read as a shard.
static_assert(verify(with_copies(plain, info_of<op::all_reduce>, 1)).ok());
static_assert(!verify(with_copies(plain, info_of<op::all_reduce>, 0)).ok());
static_assert(!verify(with_copies(plain, info_of<op::all_reduce>, 2)).ok());
static_assert(!verify(with_copies(stage_3, info_of<op::all_gather>, 0)).ok());
constexpr program gathered_as_shard() {
  program changed = stage_2;
  for (auto& n : changed.nodes)
    if (n.kind == node_kind::call && n.op == &info_of<op::all_gather>) {
      n.inputs[0] = n.outputs[0];
      break;
    }
  return changed;
}
static_assert(!verify(gathered_as_shard()).ok());

/// A step program whose loss has another name, as a policy's pass can give it.
constexpr program without_loss() {
  auto changed = update<optimizer::sgd>(micro_batches);
  for (auto& port : changed.ports)
    if (port.spec.name == std::string_view("loss")) port.spec.name = "another";
  return changed;
}
static_assert(without_loss().result("clip_coefficient") && !without_loss().result("loss"));
static_assert(verify(partition(without_loss(), true, 2)).ok());

/// Ops of a model: x times a parameter, element by element.
struct product_gradient : full_op {
  static constexpr char const* name = "product_gradient";
};
struct product : full_op {
  static constexpr char const* name = "product";
  static constexpr char const* layouts = "*, * -> *";
  static constexpr void gradient(backward& b) {
    b.emit<product_gradient>({b.gradient(), b.input(1)}, {0});
    b.emit<product_gradient>({b.gradient(), b.input(0)}, {1});
  }
};
struct scaled {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 6, .width = 4});
    auto const scale = parameter(x, "scale", shape(2, 3, 4), role::norm, {.constant = 1});
    return linear("head", emit<product>({x, scale}), 6, {.role = role::head});
  }
};
/// The rows of the product are the weights of the classes. Each rank draws its own mask.
struct dropped_weights {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 6, .width = 4});
    auto const factor = [&](char const* name) { return parameter(x, name, shape(6, 4), role::weight, {.stddev = 1}); };
    return linear(x, emit<product>({dropout(factor("a")), factor("b")}));
  }
};
/// The step of `model` on `tensor_ranks` tensor ranks times two ranks of zero<3>.
template <class model> constexpr program step_of(int tensor_ranks) {
  auto const forward = built<task<model{}, causal_lm, micro_batch{.sequences = 2, .tokens = 3}>>();
  auto const step = update<optimizer::sgd>(differentiate(divide(dead_code_elimination(forward), tensor_ranks)));
  return constrain::partition(step, {.distributed = true, .shards = 2, .tensor = tensor_ranks});
}
// The activation differs between the ranks of zero, so no rank keeps a shard of it. In a mesh, it is a sum over a
// tensor group, whose ranks train on the same data.
static_assert(verify(step_of<scaled>(1)).ok() && count(step_of<scaled>(1), info_of<op::local_shard>) == 0);
static_assert(count(step_of<scaled>(2), info_of<op::tensor_sum>) > 0);
static_assert(verify(step_of<scaled>(2)).ok() && count(step_of<scaled>(2), info_of<op::local_shard>) == 0);
static_assert(verify(step_of<dropped_weights>(1)).ok());
static_assert(count(step_of<dropped_weights>(1), info_of<op::local_shard>) == 0);

} // namespace

TEST_CASE("programs with passes on gradients overlap nothing, and later passes keep their numbers") {
  int checked = 0;
  for (auto const& model : {built<gpt2_task>(), built<tagger_task>(), built<tied_task>(), built<chain_task<7>>()})
    for (int batches : {1, 2})
      for (int every : {0, 2})
        for (auto const& [shards, stage] : {std::pair{1, 3}, {1, 1}, {2, 3}, {3, 3}, {2, 1}, {3, 2}}) {
          auto const p = differentiated(model, batches);
          for (auto const& changed :
               {with_pass(p, overwrite), with_pass(p, overwrite_shard), with_pass(p, replace), with_pass(p, read_norm),
                with_pass(p, read_norm_of_computed), with_pass(p, three_passes)}) {
            auto const exchanged = partition(recompute(changed, every), true, shards, stage);
            auto const final = in_place(slice_views(coalesce(exchanged)));
            REQUIRE(verify(exchanged) == diagnosis{});
            REQUIRE(verify(final) == diagnosis{});
            auto const before = simulate(exchanged, plan_memory(exchanged)),
                       after = simulate(final, plan_memory(final));
            CHECK(before.errors == std::vector<std::string>{});
            CHECK(after.errors == std::vector<std::string>{});
            CHECK(before.left == after.left);
            ++checked;
          }
        }
  CHECK(checked == 4 * 2 * 2 * 6 * 6);
}
