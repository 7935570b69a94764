#pragma once

#include "constrain/pass/dead_code_elimination.hpp"
#include "constrain/pass/nest.hpp"
#include "constrain/pass/rewrite.hpp"
#include "constrain/program/op_set.hpp"

#include <cstdint>
#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A set of nodes of a program, by index.
struct node_set {
  static constexpr int bits = 64;                            // bits per word
  static constexpr int size = program::maximum_nodes / bits; // number of words
  static_assert(program::maximum_nodes % bits == 0);
  std::uint64_t words[size]{}; // bit i % 64 of word i / 64: whether node i is in the set

  /// Whether the set contains node i.
  constexpr bool contains(int i) const { return (words[i / bits] >> (i % bits) & 1u) != 0; }
  /// Adds node i.
  constexpr void add(int i) { words[i / bits] |= std::uint64_t{1} << (i % bits); }
  /// Removes node i.
  constexpr void remove(int i) { words[i / bits] &= ~(std::uint64_t{1} << (i % bits)); }
  friend constexpr bool operator==(node_set const&, node_set const&) = default;
};

namespace detail {

/// Lets the backward pass recompute values of the forward pass. The results of each forward call are either kept for
/// the backward pass or dropped. If backward nodes read results of a dropped call, a clone in the backward pass repeats
/// the call, and these nodes read the clone's results. The clone comes before the first of these nodes, in loops of the
/// backward pass over the axes of the loops around the call. Clones, too, read the results of clones.
class rematerialization {
public:
  static constexpr int never = std::numeric_limits<int>::max(); // above every node's index

  /// The clones that a choice of dropped calls needs.
  struct needed_clones {
    int before[program::maximum_nodes]{}; // of a forward node: the node that its clone precedes; `never`: no clone
  };

  constexpr explicit rematerialization(program const& p) : p_(p), nest_(p) {
    for (first_backward_ = 0; first_backward_ < p.nodes.size(); ++first_backward_)
      if (p.nodes[first_backward_].backward) break;
    for (auto& node : writer_) node = -1;
    for (auto& node : first_reader_) node = never;
    for (auto& node : first_write_) node = never;
    for (auto& node : last_reader_) node = -1;
    for (int i = 0; i < first_backward_; ++i) find_droppable(i);
    for (int i = 0; i < p.nodes.size(); ++i) find_readers(i);
    for (int i = p.nodes.size() - 1; i >= first_backward_; --i)
      for (auto const& output : p.nodes[i].outputs) first_write_[output.value] = i;
    for (int i = 0; i < first_backward_; ++i)
      if (droppable_.contains(i) && is_read_soon(i)) droppable_.remove(i);
  }

  /// The calls that can be dropped.
  constexpr node_set droppable() const { return droppable_; }
  /// The number of nodes before the backward pass.
  constexpr int forward_nodes() const { return first_backward_; }

  /// The nodes that can be dropped, except calls to the ops in `kept`.
  constexpr node_set all_but(op_set const& kept) const {
    node_set dropped;
    for (int i = 0; i < first_backward_; ++i) {
      auto const& n = p_.nodes[i];
      if (droppable_.contains(i) && !kept.contains(n.op->identity) && !kept.contains(n.op->written_as)) dropped.add(i);
    }
    return dropped;
  }

  /// The clones that are needed if the droppable nodes in the set `dropped` are dropped. A node whose clone would read
  /// a parameter after its update (`optimizer::in_backward`) is kept.
  constexpr needed_clones clones_for(node_set const& dropped) const {
    needed_clones out;
    for (auto& node : out.before) node = never;
    // Of each value: its first reader in the backward pass, clones included.
    int first_reader[program::maximum_values]{};
    for (int v = 0; v < p_.values.size(); ++v) first_reader[v] = first_reader_[v];
    for (int i = first_backward_ - 1; i >= 0; --i) {
      if (!dropped.contains(i) || !droppable_.contains(i)) continue;
      int first = never;
      for (auto const& output : p_.nodes[i].outputs)
        first = first_reader[output.value] < first ? first_reader[output.value] : first;
      if (first == never || reads_updated_parameter(i, first)) continue;
      out.before[i] = first;
      for (auto const& input : p_.nodes[i].inputs)
        if (int const writer = writer_[input.value]; writer >= 0 && droppable_.contains(writer)) {
          int const reader = at_depth_of(first, writer);
          first_reader[input.value] = reader < first_reader[input.value] ? reader : first_reader[input.value];
        }
    }
    return out;
  }

  /// The program after the droppable nodes in the set `dropped` are dropped.
  constexpr program run(node_set const& dropped) const {
    auto const inserted = clones_for(dropped);
    // Lists of the clones before each node, in the order of the forward pass.
    int first[program::maximum_nodes]{}, next[program::maximum_nodes]{};
    for (auto& node : first) node = -1;
    for (int i = first_backward_ - 1; i >= 0; --i)
      if (int const node = inserted.before[i]; node != never) next[i] = first[node], first[node] = i;
    int clone[program::maximum_values]{}; // of each value: the value that the clone of its writer writes; -1: none
    for (auto& value : clone) value = -1;
    auto const read_clones = [&](node& n) {
      for (auto& input : n.inputs)
        if (clone[input.value] >= 0) input.value = clone[input.value];
    };
    auto const out = rewrite(p_, [&](builder& b, node n, int i) {
      for (int forward = first[i]; forward >= 0; forward = next[forward]) {
        node clone_node = p_.nodes[forward];
        read_clones(clone_node);
        for (auto& output : clone_node.outputs) {
          auto info = b.program.values[output.value];
          info.axes = b.enclosing;
          output.value = clone[output.value] = b.program.add_value(info);
        }
        clone_node.backward = true;
        b.program.add_node(clone_node);
      }
      if (i >= first_backward_) read_clones(n);
      b.program.add_node(n);
    });
    return dead_code_elimination(out);
  }

  /// The cost of node i over all iterations of the loops around it, in operations. A byte moved counts as 16
  /// operations: about as many as a processor completes while it moves a byte.
  constexpr double cost_of(int i) const {
    constexpr double operations_per_byte = 16;
    auto const& n = p_.nodes[i];
    operand_types inputs, outputs;
    for (auto const& r : n.inputs) inputs.push_back({p_.values[r.value].type, p_.values[r.value].shape});
    for (auto const& r : n.outputs) outputs.push_back({p_.values[r.value].type, p_.values[r.value].shape});
    auto const c = n.op->cost_of(inputs, outputs, n.attributes);
    double const iteration_cost = c.flops + operations_per_byte * (c.bytes_read + c.bytes_written);
    double iterations = 1;
    for (int loop = nest_.parent[i]; loop != nest::root; loop = nest_.parent[loop])
      iterations *= static_cast<double>(p_.axes[p_.nodes[loop].axis].extent);
    return iteration_cost * iterations;
  }

private:
  /// Marks node i as droppable if it is a call that reads no accumulator and writes only activations and scratch, none
  /// of them accumulated, loop-carried or already written. Collectives are kept, so that ranks do not wait for each
  /// other again.
  constexpr void find_droppable(int i) {
    auto const& n = p_.nodes[i];
    if (n.kind != node_kind::call || n.op->exchanges) return;
    for (auto const& output : n.outputs) {
      auto const& info = p_.values[output.value];
      bool const plain = info.role == role::activation || info.role == role::workspace;
      if (!plain || info.accumulates || info.is_loop_carried() || writer_[output.value] >= 0) return;
    }
    for (auto const& input : n.inputs)
      if (p_.values[input.value].accumulates) return;
    for (auto const& output : n.outputs) writer_[output.value] = i;
    droppable_.add(i);
  }

  /// Records node i as a reader of its inputs. The writer of an input cannot be dropped unless node i is in loops over
  /// the axes of the loops around the writer.
  constexpr void find_readers(int i) {
    for (auto const& input : p_.nodes[i].inputs) {
      int const writer = writer_[input.value];
      if (writer < 0) continue;
      if (!is_in_loops_of(i, writer)) {
        droppable_.remove(writer);
        continue;
      }
      int const reader = at_depth_of(i, writer);
      if (i < first_backward_) last_reader_[input.value] = reader;
      else if (reader < first_reader_[input.value]) first_reader_[input.value] = reader;
    }
  }

  /// Whether the backward pass reads the results of node i so soon that dropping the node frees no memory: the nodes
  /// between the last forward reader and the first backward reader are calls that write only scalars.
  constexpr bool is_read_soon(int i) const {
    int begin = i, end = never;
    for (auto const& output : p_.nodes[i].outputs) {
      begin = last_reader_[output.value] > begin ? last_reader_[output.value] : begin;
      end = first_reader_[output.value] < end ? first_reader_[output.value] : end;
    }
    if (end == never) return false;
    for (int k = begin + 1; k < end; ++k) {
      if (p_.nodes[k].kind != node_kind::call) return false;
      for (auto const& output : p_.nodes[k].outputs)
        if (p_.values[output.value].shape.elements() > 1) return false;
    }
    return true;
  }

  /// Whether the outermost loops around node i are over the axes of all loops around node `forward`, in the same order.
  constexpr bool is_in_loops_of(int i, int forward) const {
    int a = nest_.parent[i], b = nest_.parent[forward];
    for (int level = nest_.depth(i) - nest_.depth(forward); level > 0; --level) a = nest_.parent[a];
    if (nest_.depth(i) < nest_.depth(forward)) return false;
    for (; b != nest::root; a = nest_.parent[a], b = nest_.parent[b])
      if (a != b && p_.nodes[a].axis != p_.nodes[b].axis) return false;
    return true;
  }
  /// Whether a node before the backward node `first` writes a parameter that the forward node i reads.
  constexpr bool reads_updated_parameter(int i, int first) const {
    for (auto const& input : p_.nodes[i].inputs)
      if (first_write_[input.value] < first) return true;
    return false;
  }
  /// Node i, or the loop around node i, at the depth of node `forward`.
  constexpr int at_depth_of(int i, int forward) const {
    for (int level = nest_.depth(i) - nest_.depth(forward); level > 0; --level) i = nest_.parent[i];
    return i;
  }

  program const& p_;
  nest nest_;
  int first_backward_ = 0; // the first node of the backward pass
  node_set droppable_;
  int writer_[program::maximum_values]{};       // of a value: its writer, if `find_droppable` marked it; -1: none
  int first_reader_[program::maximum_values]{}; // of a value: `at_depth_of` of its first backward reader; `never`: none
  int first_write_[program::maximum_values]{};  // of a value: the first backward node that writes it; `never`: none
  int last_reader_[program::maximum_values]{};  // of a value: `at_depth_of` of its last forward reader; -1: none
};

} // namespace detail

/// Recomputes the results of the droppable forward nodes in `dropped` where the backward pass reads them, instead of
/// keeping them. The weights after training are the same, bit for bit.
constexpr program rematerialize(program const& p, node_set const& dropped) {
  if (!p.failure.ok()) return p;
  return detail::rematerialization(p).run(dropped);
}

/// Drops all forward nodes that can be dropped, except calls to the ops in `kept`. Results of collectives are kept.
constexpr program rematerialize_all_but(program const& p, op_set const& kept) {
  if (!p.failure.ok()) return p;
  detail::rematerialization const forward(p);
  return forward.run(forward.all_but(kept));
}

} // namespace constrain
