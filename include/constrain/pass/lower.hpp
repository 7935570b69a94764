#pragma once

#include "constrain/pass/memory_planning.hpp"
#include "constrain/program/plan.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The number of inputs and outputs of all calls in a program.
constexpr int count_operands(program const& p) {
  int count = 0;
  for (auto const& n : p.nodes) count += n.inputs.size() + n.outputs.size();
  return count;
}

/// The first node that writes each value.
struct first_writers {
  int node[program::maximum_values]{}; // by index of a value that any node writes

  /// Finds the first writers in `p`.
  constexpr explicit first_writers(program const& p) {
    for (int i = p.nodes.size() - 1; i >= 0; --i)
      for (auto const& output : p.nodes[i].outputs) node[output.value] = i;
  }
};

/// Bit j: the op of node `i` can add to its output j, an accumulator that an earlier node also writes, so node `i` adds
/// to output j even in the first iteration. `first`: the first writers of `p`.
constexpr unsigned adds_of(program const& p, first_writers const& first, int i) {
  auto const& n = p.nodes[i];
  unsigned adds = 0;
  for (int j = 0; j < n.outputs.size(); ++j) {
    int const value = n.outputs[j].value;
    bool const is_accumulator = (n.op->accumulating >> j & 1u) != 0 && p.values[value].accumulates;
    if (is_accumulator && first.node[value] < i) adds |= 1u << j;
  }
  return adds;
}

namespace detail {

/// Replaces references with addresses, node by node.
class lowering {
public:
  constexpr lowering(program const& p, memory_layout const& where) : p_(p), where_(where), nest_(p), first_(p) {}

  /// How far one iteration of a loop over `loop_axis` moves the index of `axis`; 0 if `loop_axis` is neither `axis` nor
  /// split from it.
  constexpr std::int64_t factor(int loop_axis, int axis) const {
    std::int64_t product = 1;
    for (; loop_axis >= 0; loop_axis = p_.axes[loop_axis].original) {
      if (loop_axis == axis) return product;
      product *= p_.axes[loop_axis].factor;
    }
    return 0;
  }

  /// The operand that node i reads or writes as `r`.
  constexpr operand address(ref r, int i) const {
    operand out;
    auto const& logical = p_.values[r.value];
    auto const view_location = locate(p_, r);
    ref const root = view_location.root;
    auto const& info = p_.values[root.value];
    auto const& storage = where_.buffers[root.value];
    out.offset = storage.offset + view_location.begin * size_of(logical.type);
    out.row_stride = view_location.row_stride;
    if (view_location.axis >= 0)
      out.strides.push_back({view_location.axis, view_location.iteration_stride * size_of(logical.type)});
    out.type = logical.type;
    out.shape = logical.shape;
    out.count = logical.shape.elements();
    out.value = r.value;
    for (auto const& stride : storage.strides) {
      bool bound = false;
      for (int loop = nest_.parent[i]; loop != nest::root; loop = nest_.parent[loop]) {
        int const axis = p_.nodes[loop].axis;
        auto const increment = factor(axis, stride.axis);
        if (increment == 0) continue;
        out.strides.push_back({axis, increment * stride.bytes});
        bound = true;
      }
      if (!bound) out.count *= p_.axes[stride.axis].extent;
    }
    if (info.is_loop_carried()) {
      out.position_stride = storage.carried_stride;
      bool const ring = storage.carried_instances != p_.axes[info.loop_carried_axis].extent + 1;
      out.ring = ring ? storage.carried_instances : 0;
      if (root.where == at::final) out.position = p_.axes[info.loop_carried_axis].extent;
      if (root.where == at::next) out.position = 1;
      if (root.where == at::current || root.where == at::next)
        for (int loop = nest_.parent[i]; loop != nest::root; loop = nest_.parent[loop])
          if (auto const increment = factor(p_.nodes[loop].axis, info.loop_carried_axis); increment != 0)
            out.position_factors.push_back({p_.nodes[loop].axis, increment});
    }
    return out;
  }

  /// Terms whose sum is the index of the current iteration, counted over all loops around node i except the micro-batch
  /// loop.
  constexpr index_terms iteration(int i) const {
    index_terms out;
    std::int64_t iterations = 1; // of the loops visited so far (the inner loops)
    int last_original = -1;
    std::int64_t last_iterations = 1;
    for (int loop = nest_.parent[i]; loop != nest::root; loop = nest_.parent[loop]) {
      int const axis = p_.nodes[loop].axis;
      if (axis == p_.micro_batches) continue;
      int original = axis;
      while (p_.axes[original].original >= 0) original = p_.axes[original].original;
      if (original != last_original) {
        last_iterations = iterations;
        iterations *= p_.axes[original].extent;
        last_original = original;
      }
      out.push_back({axis, factor(axis, original) * last_iterations});
    }
    return out;
  }

  /// The plan's step for the call at node i. `first_operand`: index of the call's first input among the plan's
  /// operands.
  constexpr step lower_call(int i, int first_operand) const {
    auto const& n = p_.nodes[i];
    step out;
    out.op = n.op->label;
    out.first_operand = first_operand;
    out.inputs = n.inputs.size();
    out.outputs = n.outputs.size();
    out.attributes = n.attributes;
    out.random_key = n.random_key;
    out.iteration = iteration(i);
    out.adds = adds_of(p_, first_, i);
    out.source = i;
    for (int j = 0; j < n.outputs.size(); ++j) {
      auto const& info = p_.values[n.outputs[j].value];
      if (!info.accumulates) continue;
      out.accumulates |= 1u << j;
      for (int loop = nest_.parent[i]; loop != nest::root; loop = nest_.parent[loop]) {
        bool is_separate = false;
        for (int axis : info.axes) is_separate = is_separate || p_.is_part_of(p_.nodes[loop].axis, axis);
        if (!is_separate) out.first[j].push_back(loop);
      }
    }
    return out;
  }

  /// The plan's step for the beginning or end of a loop at node i.
  constexpr step lower_loop(int i) const {
    step out;
    out.kind = p_.nodes[i].kind;
    out.source = i;
    if (out.kind == node_kind::loop) {
      out.axis = p_.nodes[i].axis;
      out.reversed = p_.nodes[i].reversed;
      out.partner = nest_.end[i];
    } else {
      // The node that opens this loop is the only loop node whose end is node i.
      for (int j = i; j >= 0; --j)
        if (p_.nodes[j].kind == node_kind::loop && nest_.end[j] == i) {
          out.axis = p_.nodes[j].axis;
          out.reversed = p_.nodes[j].reversed;
          out.partner = j;
        }
    }
    return out;
  }

  /// The number of elements of `r` in all iterations of the value's axes.
  constexpr std::int64_t elements(ref r) const {
    auto const& info = p_.values[r.value];
    return info.shape.elements() * p_.iterations(info);
  }

  /// The host's view of `r` in the arena. The view has no elements if `r` is empty or the value has no buffer.
  constexpr host_view view(ref r) const {
    if (!r) return {};
    auto const& info = p_.values[r.value];
    ref const root = root_of(p_, r);
    auto const& storage = where_.buffers[root.value];
    if (storage.offset < 0) return {};
    auto offset = storage.offset;
    if (root.where == at::final)
      offset += storage.carried_stride *
                (p_.axes[p_.values[root.value].loop_carried_axis].extent % storage.carried_instances);
    return {offset, elements(r), info.type};
  }

private:
  program const& p_;
  memory_layout const& where_;
  nest nest_;
  first_writers first_;
};

} // namespace detail

/// Lowering: replaces every reference with an address (offset + sum of index * stride). The result is the table that
/// the executor runs. `steps`: the number of nodes, or 0 for an empty plan; `operands`: the result of `count_operands`.
/// `where`: the memory layout of `p`.
template <int steps, int operands> constexpr plan<steps, operands> lower(program const& p, memory_layout const& where) {
  plan<steps, operands> out;
  if (steps == 0) return out;
  detail::lowering const lowering(p, where);
  int next = 0;
  for (int i = 0; i < p.nodes.size(); ++i) {
    if (p.nodes[i].kind != node_kind::call) {
      out.steps[i] = lowering.lower_loop(i);
      continue;
    }
    out.steps[i] = lowering.lower_call(i, next);
    for (auto const& r : p.nodes[i].inputs) out.operands[next++] = lowering.address(r, i);
    for (auto const& r : p.nodes[i].outputs) out.operands[next++] = lowering.address(r, i);
  }
  for (int a = 0; a < p.axes.size(); ++a) {
    out.axes[a].extent = p.axes[a].extent;
    out.axes[a].rows = p.axes[a].rows;
    if (p.axes[a].original < 0 || p.axes[a].factor != 1) continue;
    out.axes[a].original_extent = p.axes[p.axes[a].original].extent;
    for (int b = 0; b < p.axes.size(); ++b)
      if (b != a && p.axes[b].original == p.axes[a].original) out.axes[a].segments = b;
  }
  out.micro_batches = p.micro_batches;
  for (auto const& port : p.ports)
    out.ports.push_back(
        {port.kind, port.spec, port.limit, port.ignorable, lowering.elements(port.where), lowering.view(port.where)});
  for (int v = 0; v < p.values.size(); ++v) {
    if (p.values[v].role == role::hyperparameters) out.hyper = lowering.view({v, at::current});
    if (p.values[v].per_run) out.inverse_label_count = lowering.view({v, at::current});
  }
  return out;
}

} // namespace constrain
