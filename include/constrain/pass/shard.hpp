#pragma once

#include "constrain/op/assign/assign.hpp"
#include "constrain/op/collective/collective.hpp"
#include "constrain/op/gradient_norm/gradient_norm.hpp"
#include "constrain/pass/nest.hpp"
#include "constrain/pass/rewrite.hpp"
#include "constrain/policy/parallel.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Inserts the collectives. Compute nodes read all-gathered parameters and write full gradients, which are
/// reduce-scattered; update nodes work on shards.
class sharding {
public:
  constexpr sharding(program const& p, std::int64_t shards)
      : in_(p), nest_(p), shards_(shards), out_(without_nodes(p)) {
    if (shards_ > 1)
      for (auto& info : out_.program.values) cut(info);
    for (int i = 0; i < p.nodes.size(); ++i) plan_for(i);
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
  /// A gradient that is reduce-scattered at the end of its use in a loop's body.
  struct scattered {
    int gradient = -1; // the sharded gradient
    int level = -1;    // the loop whose body writes the full gradient
    int after = -1;    // node of that loop's body after which the gradient is reduced
    int full = -1;     // the full gradient
  };

  /// Replaces the shape of a tensor that is stored in shards by the shape of one shard: a flat range, padded to equal
  /// length.
  constexpr void cut(value_info& info) const {
    bool const stored = is_parameter(info.role) || info.role == role::compute_copy || info.role == role::state ||
                        info.role == role::gradient;
    if (!stored) return;
    info.full_shape = info.shape;
    info.shards = shards_;
    info.shape = shape(shard_map{info.full_shape.elements(), shards_, norm_chunk / info.block}.stored());
  }

  /// The innermost loop around node i with one instance of the value per iteration; for a value without axes, the loop
  /// over micro-batches; the root if there is none.
  constexpr int level_of(value_info const& info, int i) const {
    for (int loop = nest_.parent[i]; loop != nest::root; loop = nest_.parent[loop]) {
      int const axis = in_.nodes[loop].axis;
      if (info.axes.empty() ? axis == in_.micro_batches : in_.is_part_of(axis, info.axes.back())) return loop;
    }
    return nest::root;
  }

  /// The axes of loop `level` and the loops around it, outermost first.
  constexpr axis_list axes_at(int level) const {
    fixed_vector<int, axis_list::capacity> inside_out;
    for (int loop = level; loop != nest::root; loop = nest_.parent[loop]) inside_out.push_back(in_.nodes[loop].axis);
    axis_list axes;
    for (int k = inside_out.size() - 1; k >= 0; --k) axes.push_back(inside_out[k]);
    return axes;
  }

  /// Adds the full tensor of a sharded value, with one instance per iteration of loop `level`.
  constexpr int new_full(int value, int level, bool accumulates) {
    value_info info;
    info.type = in_.values[value].type;
    info.role = role::communication;
    info.shape = in_.values[value].shape;
    info.axes = axes_at(level);
    info.accumulates = accumulates;
    info.line = in_.values[value].line;
    return out_.program.add_value(info);
  }

  /// Index in `gathers_` of the full tensor that node i reads as `value`; -1: none yet.
  constexpr int find_gathered(int value, int i) const {
    auto const& info = in_.values[value];
    int const level = level_of(info, i);
    int const child = nest_.child(level, i);
    for (int k = 0; k < gathers_.size(); ++k) {
      auto const& g = gathers_[k];
      // A stacked parameter is gathered once per iteration of the body, a parameter without axes for every use, so that
      // it is freed in between.
      if (g.value == value && g.level == level && (!info.axes.empty() || g.before == child) &&
          !written_between(value, g.before, i))
        return k;
    }
    return -1;
  }

  /// Whether a node in [begin, end) writes the value: what was gathered before is old then.
  constexpr bool written_between(int value, int begin, int end) const {
    for (int k = begin; k < end; ++k)
      for (auto const& output : in_.nodes[k].outputs)
        if (output.value == value) return true;
    return false;
  }

  /// Index in `scatters_` of the gradient that the body of loop `level` writes; -1: none yet.
  constexpr int find_scattered(int gradient, int level) const {
    for (int k = 0; k < scatters_.size(); ++k)
      if (scatters_[k].gradient == gradient && scatters_[k].level == level) return k;
    return -1;
  }

  /// Notes which parameters are gathered before node i, and which gradients are reduced after it.
  constexpr void plan_for(int i) {
    auto const& n = in_.nodes[i];
    if (n.kind != node_kind::call || shards_ == 1) return;
    for (auto const& input : n.inputs) {
      if (n.op->reads_shards || out_.program.values[input.value].shards == 1 || find_gathered(input.value, i) >= 0)
        continue;
      int const level = level_of(in_.values[input.value], i);
      if (!gathers_.push_back({input.value, level, nest_.child(level, i), new_full(input.value, level, false)}))
        too_large(n);
    }
    for (auto const& output : n.outputs) {
      auto const& info = in_.values[output.value];
      if (info.role != role::gradient) continue;
      int const level = level_of(info, i);
      int const after = nest_.end[nest_.child(level, i)];
      if (int const k = find_scattered(output.value, level); k >= 0) scatters_[k].after = after;
      else if (!scatters_.push_back({output.value, level, after, new_full(output.value, level, true)})) too_large(n);
    }
  }

  constexpr void too_large(node const& n) {
    out_.program.fail({why::program_too_large, n.line, n.called_from, gathers_.capacity, gathers_.capacity + 1});
  }

  /// Replaces the sharded operands of node i by full tensors.
  constexpr void exchange_operands(node& n, int i) {
    if (shards_ == 1) return;
    for (auto& input : n.inputs)
      if (!n.op->reads_shards && out_.program.values[input.value].shards > 1)
        input = {gathers_[find_gathered(input.value, i)].full, at::current};
    for (int j = 0; j < n.outputs.size(); ++j) {
      auto const& info = in_.values[n.outputs[j].value];
      if (info.role != role::gradient) continue;
      n.outputs[j] = {scatters_[find_scattered(n.outputs[j].value, level_of(info, i))].full, at::current};
    }
  }

  constexpr void gather(gathered const& g) {
    auto const& info = in_.values[g.value];
    out_.call<op::all_gather>({{g.value, at::current}}, {{g.full, at::current}}, {.full = info.shape}, info.line);
  }

  /// Appends a sum over ranks; the second output of the op is scratch.
  template <class op> constexpr void reduce(ref from, ref to, options_of<op> const& options = {}) {
    to_communication(out_.call<op>({from}, {to}, options, in_.values[to.value].line).outputs[1]);
  }

  constexpr void scatter(scattered const& s) {
    reduce<op::reduce_scatter>({s.full, at::current}, {s.gradient, at::current}, {.shards = shards_});
  }

  constexpr void all_reduce_gradients() {
    for (int v = 0; v < in_.values.size(); ++v)
      if (in_.values[v].role == role::gradient) reduce<op::all_reduce>({v, at::current}, {v, at::current});
  }

  /// Appends the squared norm of a sharded gradient, with the same bits as the norm of the full gradient: each rank
  /// sums the chunks of its shard, the chunk sums are gathered, and every rank adds all of them in order.
  constexpr void sum_squares_of_shards(node full) {
    auto const tensors = in_.iterations(in_.values[full.inputs[0].value]);
    ref const mine = out_.call<op::chunk_squares>({full.inputs[0]}, {}, {.tensors = tensors}, full.line).outputs[0];
    ref const all = out_.call<op::gather_ranks>({mine}, {}, {.ranks = shards_}, full.line).outputs[0];
    to_communication(mine);
    to_communication(all);
    full.inputs[0] = all;
    out_.append(info_of<op::chunk_sum>, full);
  }

  constexpr void to_communication(ref buffer) { out_.program.values[buffer.value].role = role::communication; }

  program const& in_;
  nest nest_;
  std::int64_t shards_;
  builder out_;
  static constexpr int maximum_exchanges = 128; // of parameters and of gradients each
  fixed_vector<gathered, maximum_exchanges> gathers_;
  fixed_vector<scattered, maximum_exchanges> scatters_;
};

// Defined after the class: clang 14 evaluates member templates only after their definition.
constexpr program sharding::run() {
  bool reduced = false;
  rewrite_nodes(out_, in_, 0, in_.nodes.size(), [&](builder&, node n, int i) {
    bool const norm = calls(n, info_of<op::gradient_norm_squared>);
    if (norm && !reduced && shards_ == 1) all_reduce_gradients();
    reduced = reduced || norm;
    if (norm && shards_ > 1) {
      sum_squares_of_shards(n);
      return;
    }
    if (ref const loss = in_.result("loss"); calls(n, info_of<op::clip_coefficient>))
      reduce<op::all_reduce_small>(loss, loss);
    for (auto const& g : gathers_)
      if (g.before == i) gather(g);
    if (n.kind == node_kind::call) exchange_operands(n, i);
    if (calls(n, info_of<op::assign>)) {
      auto options = unpack<op::assign::options>(n.attributes);
      options.shards = shards_;
      n.attributes = pack(options);
    }
    out_.program.add_node(n);
    for (auto& s : scatters_)
      if (s.after == i) scatter(s);
  });
  return out_.program;
}

} // namespace detail

/// Data parallelism. With one shard every rank holds all tensors, and gradients are all-reduced after the last
/// micro-batch (Li et al. 2020, DDP). With several shards, parameters, gradients and optimizer states are sharded
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
