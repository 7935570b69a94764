#include "programs.hpp"

#include <doctest/doctest.h>

using namespace constrain;
using namespace constrain::test;

// In which layouts calls work, for calls whose operands are stored in shards or in full.

namespace {

using detail::partial_sums;
using detail::working_layouts;

struct full_op { // y = f(x), from all elements
  static constexpr char const* name = "full_op";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};
struct shard_op : full_op { // y = f(x, z), element by element in x
  static constexpr char const* name = "shard_op";
  static constexpr char const* layouts = "*, - -> *";
};
struct add_op : full_op { // y += f(x), element by element
  static constexpr char const* name = "add_op";
  static constexpr unsigned accumulating = 0b1;
  static constexpr char const* layouts = "* -> *";
};
struct guarded_op : full_op {
  static constexpr char const* name = "guarded_op";
  static constexpr bool guarded = true;
};

/// One call to an op, and its layouts. The values: an activation and two tensors that shards may hold.
struct one_call {
  builder out;
  int activation = add(role::activation), state = add(role::state), other = add(role::state),
      gradient = add(role::gradient);

  constexpr int add(role r) {
    value_info info;
    info.role = r;
    info.shape = shape(8);
    return out.program.add_value(info);
  }
  constexpr one_call& flat(int v) {
    out.program.values[v].layout = layout::flat;
    return *this;
  }
  /// The result of f(layouts, node) for a call to `op`.
  template <class op, class function>
  constexpr bool says(std::initializer_list<int> inputs, int output, function const& f) {
    node n;
    for (int v : inputs) n.inputs.push_back({v, at::current});
    n.outputs.push_back({output, at::current});
    n = out.append(info_of<op>, n);
    nest const where(out.program);
    partial_sums const sums(out.program, where);
    return f(working_layouts(out.program, out.program, sums), n);
  }
};

constexpr auto on_shards = [](working_layouts const& l, node const& n) { return l.works_on_shards(n); };
constexpr auto on_stacks = [](working_layouts const& l, node const& n) { return l.works_on_stacks(n); };
template <int k>
constexpr auto reads_in_full = [](working_layouts const& l, node const& n) { return l.reads_in_full(n, k); };
constexpr auto writes_in_full = [](working_layouts const& l, node const& n) { return l.writes_in_full(n, 0); };
constexpr auto updates = [](working_layouts const&, node const& n) { return working_layouts::updates(n, 0); };

enum stored { nothing, input, second_input, output, everything };

/// The result of f for the call `output = op(state, activation)`, with some operands stored in shards.
template <class op, class function> constexpr bool of_call(stored flat, function const& f) {
  one_call c;
  if (flat == input || flat == everything) c.flat(c.state);
  if (flat == second_input) c.flat(c.activation);
  if (flat == output || flat == everything) c.flat(c.other);
  return c.says<op>({c.state, c.activation}, c.other, f);
}

// An op that works element by element works on shards as soon as one of those operands is stored in shards.
static_assert(!of_call<shard_op>(nothing, on_shards) && of_call<shard_op>(input, on_shards));
static_assert(of_call<shard_op>(output, on_shards) && of_call<shard_op>(everything, on_shards));
static_assert(!of_call<shard_op>(second_input, on_shards)); // of which it needs all elements
static_assert(!of_call<full_op>(everything, on_shards));    // any other op never does

struct random_op : shard_op { // y = f(x, z), with random numbers
  static constexpr char const* name = "random_op";
  static constexpr bool draws_random = true;
};
static_assert(!of_call<random_op>(everything, on_shards) && of_call<random_op>(everything, reads_in_full<0>));
static_assert(of_call<random_op>(everything, writes_in_full));

struct product_op : full_op { // y = f(x, z), element by element in both
  static constexpr char const* name = "product_op";
  static constexpr char const* layouts = "*, * -> *";
};
/// Whether `output = product_op(state in shards, other)` works on shards. `chain`: `other` is computed from it.
constexpr bool of_product(role other, bool chain) {
  one_call c;
  c.flat(c.state);
  int second = c.add(other);
  if (chain) second = c.out.call<full_op>({{second, at::current}}).outputs[0].value;
  return c.says<product_op>({c.state, second}, c.add(role::activation), on_shards);
}
// It does so only with tensors that are the same on all ranks: inputs, and what follows from them, are not.
static_assert(of_product(role::state, false) && of_product(role::state, true));
static_assert(!of_product(role::input, false) && !of_product(role::input, true));

// An op reads an operand that is stored in shards as a full tensor, unless the op works on shards.
static_assert(!of_call<full_op>(nothing, reads_in_full<0>) && of_call<full_op>(input, reads_in_full<0>));
static_assert(!of_call<shard_op>(input, reads_in_full<0>) && of_call<shard_op>(second_input, reads_in_full<1>));
static_assert(!of_call<shard_op>(everything, reads_in_full<1>));             // stored in full
static_assert(!of_call<op::gradient_norm_squared>(input, reads_in_full<0>)); // it has a form for shards

// Outputs that an op writes as full tensors, of which each rank then keeps a shard.
static_assert(!of_call<full_op>(nothing, writes_in_full) && of_call<full_op>(output, writes_in_full));
static_assert(!of_call<shard_op>(output, writes_in_full) && !of_call<shard_op>(everything, writes_in_full));

/// The call `gradient = op(state)` with a gradient in shards.
template <class op, class function> constexpr bool of_gradient(function const& f) {
  one_call c;
  return c.flat(c.gradient).says<op>({c.state}, c.gradient, f);
}
// A call that adds to a gradient contributes to the sum over ranks, and this sum is full before it is reduced.
static_assert(!of_gradient<add_op>(on_shards) && !of_gradient<add_op>(writes_in_full));
static_assert(of_gradient<shard_op>(on_shards) && !of_gradient<shard_op>(writes_in_full));
static_assert(of_gradient<full_op>(writes_in_full));
/// The call `gradient += op(gradient)`: it reads the sum, and so works on it.
template <class function> constexpr bool of_sum(function const& f) {
  one_call c;
  return c.flat(c.gradient).says<add_op>({c.gradient}, c.gradient, f);
}
static_assert(of_sum(on_shards) && !of_sum(writes_in_full) && !of_sum(reads_in_full<0>));

// The old elements of an output are needed if the call reads it, adds to it, or may leave it as it is.
static_assert(!of_call<full_op>(nothing, updates) && of_call<add_op>(nothing, updates));
static_assert(of_call<guarded_op>(nothing, updates) && of_sum(updates));
static_assert([] {
  one_call c;
  return c.says<full_op>({c.other}, c.other, updates);
}());

// An op works on all tensors of a stack in one call if every operand is stored in contiguous shards and is not a view.
static_assert(of_call<shard_op>(everything, on_stacks));
static_assert(!of_call<shard_op>(input, on_stacks) && !of_call<shard_op>(output, on_stacks));
static_assert([] {
  one_call c;
  c.flat(c.state).flat(c.other);
  c.out.program.values[c.state].view = {.of = {c.gradient, at::current}};
  return !c.says<shard_op>({c.state, c.activation}, c.other, on_stacks);
}());

/// The number of calls in an optimizer's step that work on shards, for a ZeRO stage.
constexpr int updates_on_shards(int stage) {
  auto p = updated(built<chain_task<3>>());
  for (int v = 0; v < p.values.size(); ++v)
    p.values[v].layout = stored_layout(p, v, {.distributed = true, .stage = stage, .shards = 2});
  nest const where(p);
  partial_sums const sums(p, where);
  working_layouts const layouts(p, p, sums);
  int count = 0;
  for (auto const& n : p.nodes)
    if (n.kind == node_kind::call && n.op == &info_of<op::update<optimizer::adamw>>)
      count += layouts.works_on_shards(n) && !layouts.writes_in_full(n, 0) ? 1 : 0;
  return count;
}
static_assert(updates_on_shards(1) == 3 && updates_on_shards(2) == 3 && updates_on_shards(3) == 3);

} // namespace

TEST_CASE("ops read parameters in full in stage 3 only") {
  for (int stage : {1, 2, 3}) {
    auto p = updated(built<chain_task<3>>());
    for (int v = 0; v < p.values.size(); ++v)
      p.values[v].layout = stored_layout(p, v, {.distributed = true, .stage = stage, .shards = 2});
    nest const where(p);
    partial_sums const sums(p, where);
    working_layouts const layouts(p, p, sums);
    int in_full = 0;
    for (auto const& n : p.nodes) {
      if (n.kind != node_kind::call) continue;
      for (int k = 0; k < n.inputs.size(); ++k) in_full += layouts.reads_in_full(n, k) ? 1 : 0;
    }
    CAPTURE(stage);
    CHECK((in_full > 0) == (stage == 3));
  }
}
