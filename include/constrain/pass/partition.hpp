#pragma once

#include "constrain/op/add/add.hpp"
#include "constrain/op/collective/collective.hpp"
#include "constrain/pass/divided_forms.hpp"
#include "constrain/pass/partial_sums.hpp"
#include "constrain/pass/refusals.hpp"
#include "constrain/pass/rewrite.hpp"
#include "constrain/pass/stored_layout.hpp"
#include "constrain/pass/working_layouts.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Inserts a collective wherever a call reads or writes a tensor in a layout other than the one in which ranks store
/// it. `partial_sums` decides where sums over ranks are reduced.
class partitioning {
public:
  constexpr partitioning(program const& p, slot_of::parallelism const& parallelism)
      : in_(p), nest_(p), sums_(p, nest_), clip_coefficient_(p.result("clip_coefficient")), shards_(parallelism.shards),
        reduces_once_(parallelism.stage == 1 && parallelism.shards > 1), out_(without_nodes(p)),
        layouts_(p, out_.program, sums_) {
    out_.program.distributed = true;
    out_.program.shards = shards_;
    for (int v = 0; v < p.values.size(); ++v)
      if (stored_layout(p, v, parallelism) == layout::flat) make_flat(out_.program.values[v], shards_);
    for (int i = 0; i < p.nodes.size(); ++i) plan_exchanges(i);
    if (shards_ == 1) sums_.reduce_together();
    if (!sums_.failure().ok()) out_.program.fail(sums_.failure());
    if (shards_ > 1)
      for (int i = 0; i < p.nodes.size(); ++i) check_gathered(i);
    sums_.mark_reductions(exchanges_at_);
    for (auto const& g : gathers_) exchanges_at_[g.before] = true;
    for (auto const& c : contributions_) exchanges_at_[c.after] = true;
  }

  constexpr program run();

private:
  /// A sharded tensor, for example a parameter, that is gathered for the body of a loop.
  struct gathered {
    int value = -1;  // the sharded tensor
    int level = -1;  // the loop whose body reads the full tensor; nest::root: the whole program
    int before = -1; // node of that loop's body before which the tensor is gathered
    int full = -1;   // the full tensor
  };
  /// Contributions of a loop's body to a gradient, which are reduced before the gradient's next use.
  struct contributions {
    int gradient = -1; // the gradient
    int level = -1;    // the loop whose body contributes; nest::root: the whole program
    int first = -1;    // the first node that contributes
    int after = -1;    // node of that loop's body after which the contributions are reduced
    int full = -1;     // the full tensor that holds the sum of the contributions
  };

  /// Creates a full tensor for a value, with one instance per iteration of loop `level` and of the loops around it.
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

  /// Index in `gathers_` of the full tensor that node i reads or updates in place of `value`; -1: none yet.
  constexpr int find_gathered(int value, int i) const {
    auto const& info = in_.values[value];
    int const level = level_of(in_, nest_, info, i);
    int const child = nest_.child(level, i);
    for (int k = 0; k < gathers_.count; ++k) {
      if (gathers_.elements[k].value != value) continue; // first, because it is cheap
      auto const& g = gathers_[k];
      // A stacked tensor is gathered once per iteration of the loop. A tensor without axes is gathered for each call or
      // inner loop that uses it, so that the full tensor is freed in between.
      if (g.level == level && (!info.axes.empty() || g.before == child) &&
          !is_written_in(in_, value, g.before, i)) // after a write, the gathered tensor is stale
        return k;
    }
    return -1;
  }

  /// Index in `contributions_` of the latest contributions of loop `level` that begin at node i or earlier; -1: none.
  constexpr int find_contributions(int gradient, int level, int i) const {
    for (int k = contributions_.size() - 1; k >= 0; --k)
      if (auto const& c = contributions_[k]; c.gradient == gradient && c.level == level && c.first <= i) return k;
    return -1;
  }

  /// Plans the exchanges of the values that node i reads and writes.
  constexpr void plan_exchanges(int i) {
    auto const& n = in_.nodes[i];
    if (n.kind != node_kind::call) return;
    for (int k = 0; k < n.inputs.size(); ++k) {
      bool const is_read = (n.op->layouts.inputs.unread >> k & 1u) == 0;
      if (is_read && sums_.contains(n.inputs[k])) sums_.use(n.inputs[k].value, i);
      if (layouts_.reads_in_full(n, k)) plan_gather(n.inputs[k].value, i);
    }
    out_.program.fail(layouts_.check_elements(n));
    // The host reads the loss after a step. The clip coefficient's node, after all contributions, counts as this read.
    if (n.outputs.contains(clip_coefficient_)) sums_.use_loss(i);
    for (int j = 0; j < n.outputs.size(); ++j) plan_output(n, j, i);
  }

  constexpr void plan_output(node const& n, int j, int i) {
    int const value = n.outputs[j].value;
    if (layouts_.writes_in_full(n, j)) {
      check_loops(value, i);
      // The node updates the gathered tensor as it would update the stored one.
      if (layouts_.updates(n, j)) {
        plan_gather(value, i);
        if (int const k = find_gathered(value, i); k >= 0) out_.program.values[gathers_[k].full].accumulates = true;
      }
    }
    if (!sums_.contains(n.outputs[j])) return;
    if (!sums_.contributes(n, j)) return sums_.use(value, i);
    sums_.contribute(value, i);
    // With one shard, contributions before the first use add up in the gradient itself.
    if (sums_.is_gradient(value) && (shards_ > 1 || sums_.last_use(value) >= 0)) plan_reduction(value, i);
  }

  constexpr void plan_gather(int value, int i) {
    if (find_gathered(value, i) >= 0) return;
    check_loops(value, i);
    int const level = level_of(in_, nest_, in_.values[value], i);
    if (!gathers_.push_back({value, level, nest_.child(level, i), new_full(value, level, false)}))
      refuse_too_large(in_.nodes[i]);
  }

  constexpr void plan_reduction(int gradient, int i) {
    check_loops(gradient, i, layout::partial); // a contribution
    int const level = reduces_once_ ? nest::root : level_of(in_, nest_, in_.values[gradient], i);
    int const after = nest_.end[nest_.child(level, i)];
    int const k = find_contributions(gradient, level, i);
    if (k >= 0 && contributions_[k].first > sums_.last_use(gradient)) contributions_[k].after = after;
    else if (!contributions_.push_back({gradient, level, i, after, new_contributions(gradient, level, k < 0)}))
      refuse_too_large(in_.nodes[i]);
  }

  /// Creates the full tensor that holds a sum of contributions to a gradient. If gradients are reduced once per step,
  /// this tensor is a stack of sums over all micro-batches, and the gradient's shards are a view of the first stack.
  constexpr int new_contributions(int gradient, int level, bool are_first) {
    int const full = new_full(gradient, level, true);
    out_.program.values[full].layout = layout::partial;
    if (!reduces_once_) return full;
    out_.program.values[full].axes = in_.values[gradient].axes;
    if (!are_first) return full;
    out_.program.values[full].role = role::gradient;
    out_.program.values[gradient].view = {.of = {full, at::current}};
    return full;
  }

  /// Refuses node i if it needs one tensor of a stack in layout `needed`, but the loops around the node select several.
  constexpr void check_loops(int value, int i, layout needed = layout::replicated) {
    for (int axis : in_.values[value].axes) {
      bool bound = false;
      for (int loop = nest_.parent[i]; loop != nest::root; loop = nest_.parent[loop])
        bound = bound || in_.is_part_of(in_.nodes[loop].axis, axis);
      if (!bound) refuse(diagnosis_with<refusals::stack_is_exchanged>(), in_.nodes[i], value, needed);
    }
  }

  /// Refuses node i if it would read a stale full tensor: one gathered before a loop whose body writes the value.
  constexpr void check_gathered(int i) {
    auto const& n = in_.nodes[i];
    if (n.kind != node_kind::call) return;
    for (int input = 0; input < n.inputs.size(); ++input) {
      if (!layouts_.reads_in_full(n, input)) continue;
      int const value = n.inputs[input].value;
      int const k = find_gathered(value, i);
      bool is_stale = k < 0; // not found: an earlier node of the loop writes the value
      int const last = nest_.end[nest_.child(level_of(in_, nest_, in_.values[value], i), i)];
      for (int later = i; later < last; ++later) is_stale = is_stale || writes_elsewhere(value, k, later);
      if (is_stale) refuse(diagnosis_with<refusals::loop_writes_gathered_value>(), n, value);
    }
  }

  /// Whether node i writes the value, but not into the full tensor gathers_[k].
  constexpr bool writes_elsewhere(int value, int k, int i) const {
    auto const& n = in_.nodes[i];
    for (int j = 0; j < n.outputs.size(); ++j) {
      if (n.outputs[j].value != value) continue;
      if (!(layouts_.writes_in_full(n, j) && layouts_.updates(n, j)) || find_gathered(value, i) != k) return true;
    }
    return false;
  }

  constexpr void refuse(diagnosis d, node const& n, int value, layout needed = layout::replicated) {
    d.line = n.line, d.called_from = n.called_from, d.got = value;
    out_.program.fail(d.with_layouts(n.op->label, out_.program.values[value].layout, needed));
  }
  constexpr void refuse_too_large(node const& n) {
    out_.program.fail({why::program_too_large, n.line, n.called_from, gathers_.capacity, gathers_.capacity + 1});
  }

  /// Replaces the flat operands that node i needs in full, and the gradients in `contributions_`, with full tensors.
  constexpr void exchange_operands(node& n, int i) {
    auto const& original = in_.nodes[i];
    for (int k = 0; k < n.inputs.size(); ++k)
      if (layouts_.reads_in_full(original, k))
        n.inputs[k] = {gathers_[find_gathered(n.inputs[k].value, i)].full, at::current};
    for (int j = 0; j < n.outputs.size(); ++j) {
      int const value = n.outputs[j].value;
      int const level = level_of(in_, nest_, in_.values[value], i);
      if (layouts_.writes_in_full(original, j)) {
        int const full =
            layouts_.updates(original, j) ? gathers_[find_gathered(value, i)].full : new_full(value, level, false);
        n.outputs[j] = {full, at::current};
      } else if (sums_.is_gradient(value) && sums_.contributes(original, j)) {
        int const k = find_contributions(value, reduces_once_ ? nest::root : level, i);
        if (k >= 0) n.outputs[j] = {contributions_[k].full, at::current};
      }
    }
  }

  /// Appends a call that works on full tensors. Each rank keeps its shard of the results that are stored in shards.
  constexpr void append_full(node n, int i) {
    exchange_operands(n, i);
    out_.program.add_node(n);
    for (int j = 0; j < n.outputs.size(); ++j)
      if (layouts_.writes_in_full(in_.nodes[i], j)) keep_shard(n.outputs[j], in_.nodes[i].outputs[j], n.line);
  }

  /// Appends a call that works on shards. Each rank takes its shard of an input that is stored in full and has the
  /// pattern `*` (program/layout.hpp); the ranks gather the shards of a result that is stored in full.
  constexpr void append_on_shards(node n, int i) {
    auto const& original = in_.nodes[i];
    exchange_operands(n, i);
    auto const axes = layouts_.works_on_stacks(n) ? axis_list() : in_.values[n.outputs[0].value].axes;
    int const opened = out_.open_all(axes);
    for (int k = 0; k < n.inputs.size(); ++k) {
      if (!layouts_.by_element(n, k) || layouts_.is_flat(n.inputs[k].value)) continue;
      ref const shard = new_shard(n.inputs[k].value, in_.values[n.outputs[0].value].block);
      keep_shard(n.inputs[k], shard, n.line);
      n.inputs[k] = shard;
    }
    for (int j = 0; j < n.outputs.size(); ++j) {
      if (layouts_.is_flat(n.outputs[j].value)) continue;
      ref const shard = new_shard(n.outputs[j].value, in_.values[n.outputs[j].value].block);
      if (layouts_.updates(original, j)) keep_shard(n.outputs[j], shard, n.line);
      n.outputs[j] = shard;
    }
    out_.program.add_node(n);
    for (int j = 0; j < n.outputs.size(); ++j)
      if (!(n.outputs[j] == original.outputs[j])) gather_shards(n.outputs[j], original.outputs[j]);
    out_.close(opened);
  }

  /// Creates the rank's shard of one instance of a value that is stored in full; `block` as in `value_info`.
  constexpr ref new_shard(int value, int block) {
    auto const& info = in_.values[value];
    value_info shard;
    shard.type = info.type;
    shard.role = role::communication;
    shard.shape = info.shape;
    shard.block = block;
    shard.axes = out_.enclosing;
    shard.accumulates = true; // updates change it in place
    shard.line = info.line;
    make_flat(shard, shards_);
    return {out_.program.add_value(shard), at::current};
  }
  constexpr void keep_shard(ref full, ref shard, int line) {
    auto const chunk = chunk_of(out_.program.values[shard.value]);
    out_.call<op::local_shard>({full}, {shard}, {.shards = shards_, .chunk = chunk}, line);
  }
  constexpr void gather_shards(ref shard, ref full) {
    auto const& info = out_.program.values[shard.value];
    out_.call<op::all_gather>({shard}, {full}, {.full = info.full_shape, .chunk = chunk_of(info)}, info.line);
  }

  /// Appends a sum over ranks.
  template <class op> constexpr void reduce(ref from, ref to, options_of<op> const& options = {}) {
    out_.call<op>({from}, {to}, options, out_.program.values[to.value].line);
  }

  constexpr void reduce_contributions(contributions const& c) {
    ref const full{c.full, at::current}, gradient{c.gradient, at::current};
    auto const& info = in_.values[c.gradient];
    if (shards_ == 1) {
      reduce<op::all_reduce>(full, full);
      out_.call<op::add>({gradient, full}, {gradient}, {}, info.line);
      return;
    }
    int const opened = out_.open_all(info.axes);
    reduce<op::reduce_scatter>(full, gradient, {.shards = shards_});
    out_.close(opened);
  }

  /// Appends the gathers before node i, and the reductions that `sums_` plans before node i, except the reductions of
  /// sharded gradients (`reduce_contributions`).
  constexpr void exchange_before(int i) {
    sums_.for_each_before(i, [&](int v) {
      ref const sum{v, at::current};
      if (!sums_.is_gradient(v)) reduce<op::all_reduce_small>(sum, sum);
      else if (shards_ == 1) reduce<op::all_reduce>(sum, sum);
    });
    for (auto const& g : gathers_)
      if (g.before == i) gather_shards({g.value, at::current}, {g.full, at::current});
  }

  program const& in_;
  nest nest_;
  partial_sums sums_;
  ref clip_coefficient_; // the result; empty in programs without gradients
  std::int64_t shards_;
  bool reduces_once_; // whether gradients in shards are reduced once per step, not once per micro-batch
  builder out_;
  working_layouts layouts_;
  bool exchanges_at_[program::maximum_nodes]{}; // whether a collective is inserted before or after the node
  static constexpr int maximum_exchanges = 256; // of each kind: gathered tensors and contributions to gradients
  fixed_vector<gathered, maximum_exchanges> gathers_;
  fixed_vector<contributions, maximum_exchanges> contributions_;
};

constexpr program partitioning::run() {
  if (!out_.program.failure.ok()) return out_.program;
  rewrite_nodes(out_, in_, 0, in_.nodes.size(), [&](builder&, node n, int i) {
    if (exchanges_at_[i]) exchange_before(i);
    if (n.kind != node_kind::call) out_.program.add_node(n);
    else if (n.op->has_flat_form && layouts_.is_flat(n.inputs[0].value)) n.op->flat_form(out_, n);
    else if (layouts_.works_on_shards(n)) append_on_shards(n, i);
    else append_full(n, i);
    for (int k = 0; exchanges_at_[i] && k < contributions_.size(); ++k)
      if (contributions_[k].after == i) reduce_contributions(contributions_[k]);
  });
  return out_.program;
}

} // namespace detail

/// If `parallelism.distributed`, applies `use_divided_forms` (tensor parallelism), then, unless all ranks train on the
/// same data, data parallelism. With ddp, each gradient is all-reduced before a node reads it (Li et al. 2020). With
/// ZeRO (Rajbhandari et al. 2020), a sharded parameter (`stored_layout`) is gathered for the loop body that reads it,
/// and a gradient is reduce-scattered after its last contribution in a loop body (stage 1: in the step). Element-wise
/// updates work on shards. A step all-reduces the loss. Sums are in rank order, except on CUDA with reduce::fast.
/// Refused: what `use_divided_forms` refuses, operands that ranks cannot exchange or pair, uses of partial sums, and
/// over 256 gathers or contributions.
constexpr program partition(program const& p, slot_of::parallelism const& parallelism) {
  if (!parallelism.distributed || !p.failure.ok()) return p;
  if (p.tensor_ranks == 1) return parallelism.same_data ? p : detail::partitioning(p, parallelism).run();
  auto const divided = use_divided_forms(p);
  bool const is_done = parallelism.same_data || !divided.failure.ok();
  return is_done ? divided : detail::partitioning(divided, parallelism).run();
}

} // namespace constrain
