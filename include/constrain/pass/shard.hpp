#pragma once

#include "constrain/op/add/add.hpp"
#include "constrain/op/assign/assign.hpp"
#include "constrain/op/collective/collective.hpp"
#include "constrain/op/gradient_norm/gradient_norm.hpp"
#include "constrain/pass/partial_sums.hpp"
#include "constrain/pass/refusals.hpp"
#include "constrain/pass/rewrite.hpp"
#include "constrain/policy/parallel.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Inserts the collectives. Compute nodes read all-gathered parameters and write full gradients, which are
/// reduce-scattered; update nodes work on shards. Sums over ranks are reduced where `partial_sums` says.
class sharding {
public:
  constexpr sharding(program const& p, std::int64_t shards)
      : in_(p), nest_(p), sums_(p, nest_), shards_(shards), out_(without_nodes(p)) {
    if (shards_ > 1)
      for (auto& info : out_.program.values) cut(info);
    for (int i = 0; i < p.nodes.size(); ++i) plan_for(i);
    if (shards_ == 1) sums_.reduce_together();
    if (!sums_.failure().ok()) out_.program.fail(sums_.failure());
    if (shards_ > 1)
      for (int i = 0; i < p.nodes.size(); ++i) check_gathered(i);
  }

  constexpr program run();

private:
  /// A parameter that is gathered for the body of a loop.
  struct gathered {
    int value = -1;  // the parameter
    int level = -1;  // the loop whose body reads the full tensor
    int before = -1; // node of that loop's body before which the parameter is gathered
    int full = -1;   // the full tensor
  };
  /// Contributions to a gradient that a loop's body makes and that are reduced before the gradient's next use.
  struct contributions {
    int gradient = -1; // the gradient
    int level = -1;    // the loop whose body contributes
    int first = -1;    // the first node that contributes
    int after = -1;    // node of that loop's body after which the contributions are reduced
    int full = -1;     // the full tensor in which they add up
  };

  /// Replaces the shape of a tensor that is stored in shards by the shape of one shard: a flat range, padded to equal
  /// length.
  constexpr void cut(value_info& info) const {
    bool const stored = is_parameter(info.role) || info.role == role::compute_copy || info.role == role::state ||
                        info.role == role::gradient;
    if (!stored) return;
    info.full_shape = info.shape;
    info.shards = shards_;
    info.shape = shape(shard_map{info.full_shape.elements(), shards_, chunk_of(info)}.stored());
  }

  static constexpr std::int64_t chunk_of(value_info const& info) { return norm_chunk / info.block; }

  /// Adds the full tensor of a sharded value, with one instance per iteration of loop `level`.
  constexpr int new_full(int value, int level, bool accumulates) {
    value_info info;
    info.type = in_.values[value].type;
    info.role = role::communication;
    info.shape = in_.values[value].shape;
    info.axes = axes_at(in_, nest_, level);
    info.accumulates = accumulates;
    info.line = in_.values[value].line;
    return out_.program.add_value(info);
  }

  /// Index in `gathers_` of the full tensor that node i reads as `value`; -1: none yet.
  constexpr int find_gathered(int value, int i) const {
    auto const& info = in_.values[value];
    int const level = level_of(in_, nest_, info, i);
    int const child = nest_.child(level, i);
    for (int k = 0; k < gathers_.size(); ++k) {
      auto const& g = gathers_[k];
      // A stacked parameter is gathered once per iteration of the body, a parameter without axes for every use, so that
      // it is freed in between.
      if (g.value == value && g.level == level && (!info.axes.empty() || g.before == child) &&
          !is_written_in(in_, value, g.before, i)) // after a write, the gathered tensor is old
        return k;
    }
    return -1;
  }

  /// Whether node n takes a sharded value as a full tensor.
  constexpr bool works_in_full(node const& n, int value) const {
    return !n.op->reads_shards && out_.program.values[value].shards > 1;
  }

  /// Whether node n computes its output j, a sharded gradient, as a full tensor; each rank then keeps its shard.
  constexpr bool overwrites_in_full(node const& n, int j) const {
    int const value = n.outputs[j].value;
    return sums_.is_gradient(value) && works_in_full(n, value) && !sums_.contributes(n, j) &&
           !calls(n, info_of<op::assign>);
  }

  /// Index in `contributions_` of the latest contributions of loop `level` that node i may belong to; -1: none.
  constexpr int find_contributions(int gradient, int level, int i) const {
    for (int k = contributions_.size() - 1; k >= 0; --k) {
      auto const& c = contributions_[k];
      if (c.gradient == gradient && c.level == level && c.first <= i) return k;
    }
    return -1;
  }

  /// Plans the exchanges of the values that node i reads and writes.
  constexpr void plan_for(int i) {
    auto const& n = in_.nodes[i];
    if (n.kind != node_kind::call) return;
    for (auto const& input : n.inputs) {
      if (sums_.contains(input) && !n.op->reads_partial) sums_.use(input.value, i);
      if (works_in_full(n, input.value)) plan_gather(input.value, i);
    }
    // The host reads the loss, whether a node does or not.
    if (calls(n, info_of<op::clip_coefficient>)) sums_.use(in_.result("loss").value, i);
    for (int j = 0; j < n.outputs.size(); ++j) plan_output(n, j, i);
  }

  constexpr void plan_output(node const& n, int j, int i) {
    int const value = n.outputs[j].value;
    if (works_in_full(n, value)) check_loops(value, i);
    if (!sums_.contains(n.outputs[j])) return;
    if (!sums_.contributes(n, j)) {
      sums_.use(value, i);
      // A node that also reads the gradient writes over the gathered tensor, as it would over the gradient.
      int const k = find_gathered(value, i);
      if (overwrites_in_full(n, j) && n.inputs.contains(n.outputs[j]) && k >= 0)
        out_.program.values[gathers_[k].full].accumulates = true;
      return;
    }
    sums_.contribute(value, i);
    // With one shard, contributions before the first use add up in the gradient itself.
    if (sums_.is_gradient(value) && (shards_ > 1 || sums_.last_use(value) >= 0)) plan_reduction(value, i);
  }

  constexpr void plan_gather(int value, int i) {
    if (find_gathered(value, i) >= 0) return;
    check_loops(value, i);
    int const level = level_of(in_, nest_, in_.values[value], i);
    if (!gathers_.push_back({value, level, nest_.child(level, i), new_full(value, level, false)}))
      too_large(in_.nodes[i]);
  }

  constexpr void plan_reduction(int gradient, int i) {
    check_loops(gradient, i);
    int const level = level_of(in_, nest_, in_.values[gradient], i);
    int const after = nest_.end[nest_.child(level, i)];
    int const k = find_contributions(gradient, level, i);
    if (k >= 0 && contributions_[k].first > sums_.last_use(gradient)) contributions_[k].after = after;
    else if (!contributions_.push_back({gradient, level, i, after, new_full(gradient, level, true)}))
      too_large(in_.nodes[i]);
  }

  /// Refuses node i if the loops around it leave open which tensor of a stack it exchanges.
  constexpr void check_loops(int value, int i) {
    for (int axis : in_.values[value].axes) {
      bool bound = false;
      for (int loop = nest_.parent[i]; loop != nest::root; loop = nest_.parent[loop])
        bound = bound || in_.is_part_of(in_.nodes[loop].axis, axis);
      if (!bound)
        out_.program.fail(
            diagnosis_with<refusals::stack_is_exchanged>(in_.nodes[i].line, in_.nodes[i].called_from, 0, value));
    }
  }

  /// Refuses node i if it would read an old full tensor: one gathered before a loop whose body writes the value.
  constexpr void check_gathered(int i) {
    auto const& n = in_.nodes[i];
    if (n.kind != node_kind::call) return;
    for (auto const& input : n.inputs) {
      int const value = input.value;
      if (!works_in_full(n, value)) continue;
      int const k = find_gathered(value, i);
      bool old = k < 0; // an earlier node of the loop writes the value
      int const last = nest_.end[nest_.child(level_of(in_, nest_, in_.values[value], i), i)];
      for (int later = i; later < last; ++later) old = old || writes_elsewhere(value, k, later);
      if (old) out_.program.fail(diagnosis_with<refusals::loop_writes_what_it_reads>(n.line, n.called_from, 0, value));
    }
  }

  /// Whether node i writes the value, but not into the full tensor gathers_[k].
  constexpr bool writes_elsewhere(int value, int k, int i) const {
    auto const& n = in_.nodes[i];
    for (int j = 0; j < n.outputs.size(); ++j) {
      if (n.outputs[j].value != value) continue;
      bool const in_gathered = overwrites_in_full(n, j) && n.inputs.contains(n.outputs[j]);
      if (!in_gathered || find_gathered(value, i) != k) return true;
    }
    return false;
  }

  constexpr void too_large(node const& n) {
    out_.program.fail({why::program_too_large, n.line, n.called_from, gathers_.capacity, gathers_.capacity + 1});
  }

  /// Lets node i read and write full tensors in place of its sharded operands and of its contributions.
  constexpr void exchange_operands(node& n, int i) {
    for (auto& input : n.inputs)
      if (works_in_full(n, input.value)) input = {gathers_[find_gathered(input.value, i)].full, at::current};
    auto const& original = in_.nodes[i];
    for (int j = 0; j < n.outputs.size(); ++j) {
      int const value = n.outputs[j].value;
      if (!sums_.is_gradient(value)) continue;
      int const level = level_of(in_, nest_, in_.values[value], i);
      if (sums_.contributes(original, j)) {
        int const k = find_contributions(value, level, i);
        if (k >= 0) n.outputs[j] = {contributions_[k].full, at::current};
      } else if (overwrites_in_full(original, j)) {
        bool const reads = original.inputs.contains(n.outputs[j]);
        n.outputs[j] = {reads ? gathers_[find_gathered(value, i)].full : new_full(value, level, false), at::current};
      }
    }
  }

  /// Appends node i of the input, and the exchanges that only this node needs.
  constexpr void append_call(node n, int i) {
    exchange_operands(n, i);
    if (calls(n, info_of<op::assign>)) {
      auto options = unpack<op::assign::options>(n.attributes);
      options.shards = shards_;
      options.chunk = chunk_of(in_.values[n.outputs[0].value]);
      n.attributes = pack(options);
    }
    out_.program.add_node(n);
    for (int j = 0; j < n.outputs.size(); ++j)
      if (overwrites_in_full(in_.nodes[i], j))
        out_.call<op::local_shard>({n.outputs[j]}, {in_.nodes[i].outputs[j]}, {.shards = shards_}, n.line);
  }

  constexpr void gather(gathered const& g) {
    auto const& info = in_.values[g.value];
    out_.call<op::all_gather>({{g.value, at::current}}, {{g.full, at::current}},
                              {.full = info.shape, .chunk = chunk_of(info)}, info.line);
  }

  /// Appends a sum over ranks; the second output of the op is scratch.
  template <class op> constexpr void reduce(ref from, ref to, options_of<op> const& options = {}) {
    to_communication(out_.call<op>({from}, {to}, options, out_.program.values[to.value].line).outputs[1]);
  }

  constexpr void reduce_contributions(contributions const& c) {
    ref const full{c.full, at::current}, gradient{c.gradient, at::current};
    if (shards_ > 1) return reduce<op::reduce_scatter>(full, gradient, {.shards = shards_});
    reduce<op::all_reduce>(full, full);
    out_.call<op::add>({gradient, full}, {gradient}, {}, in_.values[c.gradient].line);
  }

  /// Reduces the sums that node i needs. Shards of gradients are reduced after their contributions instead.
  constexpr void reduce_before(int i) {
    sums_.for_each_before(i, [&](int v) {
      ref const sum{v, at::current};
      if (!sums_.is_gradient(v)) reduce<op::all_reduce_small>(sum, sum);
      else if (shards_ == 1) reduce<op::all_reduce>(sum, sum);
    });
  }

  /// Whether node n is the squared norm of a tensor that is stored in shards.
  constexpr bool is_norm_of_shards(node const& n) const {
    return calls(n, info_of<op::gradient_norm_squared>) && out_.program.values[n.inputs[0].value].shards > 1;
  }

  /// Appends the squared norm of a sharded gradient, with the same bits as the norm of the full gradient: each rank
  /// sums the chunks of its shard, the chunk sums are gathered, and every rank adds all of them in order.
  constexpr void sum_squares_of_shards(node full) {
    auto const& info = in_.values[full.inputs[0].value];
    op::chunk_squares::options const sharded{
        .tensors = stacked(info), .elements = info.shape.elements(), .shards = shards_, .chunk = chunk_of(info)};
    ref const mine = out_.call<op::chunk_squares>({full.inputs[0]}, {}, sharded, full.line).outputs[0];
    ref const all = out_.call<op::gather_ranks>({mine}, {}, {.ranks = shards_}, full.line).outputs[0];
    to_communication(mine);
    to_communication(all);
    full.inputs[0] = all;
    out_.append(info_of<op::chunk_sum>, full);
  }

  /// How many tensors of a value the next appended call works on: one for each index of the axes without an open loop.
  constexpr std::int64_t stacked(value_info const& info) const {
    std::int64_t product = 1;
    for (int axis : info.axes) {
      bool bound = false;
      for (int around : out_.enclosing) bound = bound || in_.is_part_of(around, axis);
      if (!bound) product *= in_.axes[axis].extent;
    }
    return product;
  }

  constexpr void to_communication(ref buffer) { out_.program.values[buffer.value].role = role::communication; }

  program const& in_;
  nest nest_;
  partial_sums sums_;
  std::int64_t shards_;
  builder out_;
  static constexpr int maximum_exchanges = 128; // of each kind: gathered parameters, contributions to gradients
  fixed_vector<gathered, maximum_exchanges> gathers_;
  fixed_vector<contributions, maximum_exchanges> contributions_;
};

// Defined after the class: clang 14 evaluates member templates only after their definition.
constexpr program sharding::run() {
  if (!out_.program.failure.ok()) return out_.program;
  rewrite_nodes(out_, in_, 0, in_.nodes.size(), [&](builder&, node n, int i) {
    reduce_before(i);
    if (is_norm_of_shards(n)) {
      sum_squares_of_shards(n);
      return;
    }
    for (auto const& g : gathers_)
      if (g.before == i) gather(g);
    if (n.kind == node_kind::call) append_call(n, i);
    else out_.program.add_node(n);
    for (auto const& c : contributions_)
      if (c.after == i) reduce_contributions(c);
  });
  return out_.program;
}

} // namespace detail

/// Data parallelism. With one shard every rank holds all tensors, and gradients are all-reduced before the first node
/// that reads one (Li et al. 2020, DDP). With several shards, parameters, gradients and optimizer states are sharded
/// (Rajbhandari et al. 2020, ZeRO stage 3): a parameter is all-gathered in the loop body that reads it and freed after
/// that body, and its gradient is reduce-scattered when the body has computed it. The loss is all-reduced. All sums
/// over ranks add in rank order.
constexpr program shard(program const& p, slot_of::parallelism const& parallelism) {
  if (!parallelism.distributed || !p.failure.ok()) return p;
  auto out = detail::sharding(p, parallelism.shards).run();
  out.distributed = true;
  return out;
}

} // namespace constrain
