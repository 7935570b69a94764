#pragma once

#include "constrain/op/concatenate/concatenate.hpp"
#include "constrain/op/reshape/reshape.hpp"
#include "constrain/op/slice/slice.hpp"
#include "constrain/op/stack/stack.hpp"
#include "constrain/pass/nest.hpp"
#include "constrain/pass/rewrite.hpp"
#include "constrain/program/location.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Turns the results of slices and reshapes, and the operands of concatenations, stacks and reshapes, into views, node
/// by node.
class slice_viewing {
public:
  /// `p` must outlive this object.
  constexpr explicit slice_viewing(program& p) : p_(p), nest_(p) {
    for (int v = 0; v < p.values.size(); ++v)
      if (p.values[v].view) views_.push_back(v);
    for (auto const& n : p.nodes) count_dense_uses(n, 1);
  }

  /// Changes the constructor's argument.
  constexpr void run() {
    bool removed[program::maximum_nodes]{};
    for (int i = 0; i < p_.nodes.size(); ++i)
      if (calls(p_.nodes[i], info_of<op::slice>) || calls(p_.nodes[i], info_of<op::reshape>))
        removed[i] = view_result(i);
    // This loop runs from last to first, because a concatenation must still find the writer of an operand that is
    // itself the result of a concatenation.
    for (int i = p_.nodes.size() - 1; i >= 0; --i) {
      auto const& n = p_.nodes[i];
      bool const joins = calls(n, info_of<op::concatenate>) || calls(n, info_of<op::stack>);
      if (joins || (calls(n, info_of<op::reshape>) && !removed[i])) removed[i] = view_operands(i);
    }
    remove_nodes(p_, removed);
  }

private:
  /// Whether the value is an activation that is neither accumulated nor loop-carried.
  constexpr bool is_plain(ref r) const {
    auto const& info = p_.values[r.value];
    return info.role == role::activation && !info.accumulates && !info.is_loop_carried();
  }
  /// Whether `r` keeps its elements until the iteration ends (`keeps_its_value` checks persistent values). A
  /// loop-carried value has one instance that the iteration reads and a different instance that the iteration writes.
  /// The loop may overwrite the initial instance. Results, which the host reads after the run, do not count.
  constexpr bool keeps_elements(ref r) const {
    auto const& info = p_.values[r.value];
    bool const is_inside_loop = r.where == at::current || r.where == at::next;
    return !info.accumulates && info.role != role::result && (!info.is_loop_carried() || is_inside_loop);
  }
  /// Whether a node after node i reads or writes `r` itself, or a value that is already a view of it.
  constexpr bool is_used_after(ref r, int i) const {
    auto const is_use = [&](ref used) {
      return used == r || (used.value != r.value && is_view_of(used.value, r.value));
    };
    for (int j = i + 1; j < p_.nodes.size(); ++j) {
      for (auto const& input : p_.nodes[j].inputs)
        if (is_use(input)) return true;
      for (auto const& output : p_.nodes[j].outputs)
        if (is_use(output)) return true;
    }
    return false;
  }

  /// Whether slices of `source` along this dimension consist of rows of equal length at equal distances.
  static constexpr bool keeps_rows(shape const& source, int dimension) {
    for (int d = 0; d < dimension && dimension + 1 < source.rank; ++d)
      if (source.extent[d] != 1) return false;
    return true;
  }

  /// Whether `locate` can follow all views, no strided view of `r` is reshaped, and every op that reads or writes such
  /// a view accepts strided rows. The call that the view replaces does not count (`count_dense_uses`).
  constexpr bool allows_views(ref r) const {
    for (int v : views_) {
      if (!is_shallow(v)) return false;
      if (!is_view_of(v, r.value) || locate(p_, {v}).row_stride == 0) continue;
      if (is_reshaped(v) || dense_uses_[v] > 0) return false;
    }
    return true;
  }
  /// Adds `change` to `dense_uses_` for each operand of `n` whose rows must be contiguous.
  constexpr void count_dense_uses(node const& n, int change) {
    for (int k = 0; k < n.inputs.size(); ++k)
      if ((n.op->strided_inputs >> k & 1u) == 0) dense_uses_[n.inputs[k].value] += change;
    for (int k = 0; k < n.outputs.size(); ++k)
      if ((n.op->strided_outputs >> k & 1u) == 0) dense_uses_[n.outputs[k].value] += change;
  }
  /// Whether `locate` can follow the view `v` to its root.
  constexpr bool is_shallow(int v) const {
    int views = 0;
    for (; p_.values[v].view; v = p_.values[v].view.of.value) ++views;
    return views <= location::maximum_views;
  }
  /// Whether the view `v` has all elements of the value that it is a view of, in rows of a different length.
  constexpr bool is_reshaped(int v) const {
    auto const& viewed = p_.values[p_.values[v].view.of.value].shape;
    auto const& s = p_.values[v].shape;
    return s.elements() == viewed.elements() && s.features() != viewed.features();
  }
  constexpr bool is_view_of(int v, int viewed) const {
    while (v != viewed && p_.values[v].view) v = p_.values[v].view.of.value;
    return v == viewed;
  }

  /// Whether no node reads `result` after a node has written the root of `source`. Always true if the root is not
  /// persistent.
  constexpr bool keeps_its_value(ref source, ref result) const {
    ref const root = root_of(p_, source);
    if (!is_persistent(p_.values[root.value].role)) return true;
    bool is_written = false;
    for (auto const& n : p_.nodes) {
      if (is_written && n.inputs.contains(result)) return false;
      for (auto const& output : n.outputs) is_written = is_written || root_of(p_, output) == root;
    }
    return true;
  }

  /// The result of the slice or reshape at node i as a view of its input.
  constexpr view view_of_input(int i) const {
    auto const& n = p_.nodes[i];
    if (!calls(n, info_of<op::slice>)) return {n.inputs[0]};
    auto const o = unpack<op::slice::options>(n.attributes);
    int const axis = o.iterations > 1 ? p_.nodes[nest_.parent[i]].axis : -1;
    return {n.inputs[0], o.dimension, o.begin, axis, axis < 0 ? 0 : o.extent};
  }

  /// Makes the result of the slice or reshape at node i a view of its input, if possible. Returns whether it is
  /// possible.
  constexpr bool view_result(int i) {
    auto const new_view = view_of_input(i);
    ref const source = new_view.of, result = p_.nodes[i].outputs[0];
    if (!is_plain(result) || p_.values[result.value].view || !keeps_elements(source)) return false;
    if (!keeps_rows(p_.values[source.value].shape, new_view.dimension) || !keeps_its_value(source, result))
      return false;
    p_.values[result.value].view = new_view;
    views_.push_back(result.value);
    count_dense_uses(p_.nodes[i], -1); // the node itself no longer reads its input or writes its result
    if (allows_views(result)) {
      p_.nodes[i].inputs.count = p_.nodes[i].outputs.count = 0;
      return true;
    }
    count_dense_uses(p_.nodes[i], 1);
    p_.values[result.value].view = {};
    views_.pop_back();
    return false;
  }

  /// Whether exactly one node writes `r`, and this node is in the loop around node i (for an op::stack at node i: in
  /// the loop whose iterations are stacked).
  constexpr bool is_written_beside(ref r, int i) const {
    bool const stacks = calls(p_.nodes[i], info_of<op::stack>);
    int writers = 0;
    for (int j = 0; j < p_.nodes.size(); ++j)
      for (auto const& output : p_.nodes[j].outputs) {
        if (output.value != r.value) continue;
        int const loop = nest_.parent[j];
        if (stacks && loop == nest::root) return false;
        if ((stacks ? nest_.parent[loop] : loop) != nest_.parent[i]) return false;
        ++writers;
      }
    return writers == 1;
  }

  /// Operand k of the concatenation, stack or reshape `n` as a view of the result. `begin`: in a concatenation, the
  /// index at which the operand begins.
  constexpr view view_of_result(node const& n, int k, std::int64_t begin) const {
    ref const result = n.outputs[0];
    auto const& operand = p_.values[n.inputs[k].value];
    if (calls(n, info_of<op::stack>)) return {result, 0, 0, operand.axes.back(), operand.shape.extent[0]};
    if (calls(n, info_of<op::reshape>)) return {result};
    return {result, unpack<op::concatenate::options>(n.attributes).dimension, begin};
  }

  /// Makes the operands of the concatenation, stack or reshape at node i views of its result, if all of them can be
  /// views. Returns whether they can.
  constexpr bool view_operands(int i) {
    auto const& n = p_.nodes[i];
    ref const result = n.outputs[0];
    bool const is_activation = p_.values[result.value].role == role::activation;
    // A loop that starts from the result may overwrite the result.
    bool const starts_a_loop = result.where == at::initial || result.where == at::final;
    if (!is_activation || p_.values[result.value].accumulates) return false;
    std::int64_t begin = 0;
    int view_count = 0;
    bool fits = true;
    for (; view_count < n.inputs.size() && fits; ++view_count) {
      auto& operand = p_.values[n.inputs[view_count].value];
      auto const new_view = view_of_result(n, view_count, begin);
      fits = is_plain(n.inputs[view_count]) && !operand.view && is_written_beside(n.inputs[view_count], i) &&
             keeps_rows(p_.values[result.value].shape, new_view.dimension) &&
             !(starts_a_loop && is_used_after(n.inputs[view_count], i));
      if (!fits) break;
      operand.view = new_view;
      views_.push_back(n.inputs[view_count].value);
      begin += operand.shape.extent[new_view.dimension];
    }
    count_dense_uses(n, -1); // the node itself no longer reads or writes anything
    if (fits && allows_views(result)) {
      p_.nodes[i].inputs.count = p_.nodes[i].outputs.count = 0;
      return true;
    }
    count_dense_uses(n, 1);
    for (int k = 0; k < view_count; ++k) {
      p_.values[n.inputs[k].value].view = {};
      views_.pop_back();
    }
    return false;
  }

  program& p_;
  nest nest_;
  fixed_vector<int, program::maximum_values> views_; // the values that are views
  // By index of the value: the number of operands of calls that are this value and whose rows must be contiguous.
  int dense_uses_[program::maximum_values]{};
};

/// Like `slice_views`, but changes `p` itself, which must not be refused.
constexpr void make_views(program& p) {
  for (auto const& n : p.nodes)
    if (calls(n, info_of<op::slice>) || calls(n, info_of<op::concatenate>) || calls(n, info_of<op::reshape>) ||
        calls(n, info_of<op::stack>))
      return slice_viewing(p).run();
}

} // namespace detail

/// Removes slices, concatenations, reshapes and stacks that need not copy. The result of a slice or reshape becomes a
/// view of the input, or the operands of a concatenation, stack or reshape become views of the result. A copy remains,
/// for example, if an op does not accept the strided rows of a view (`op_info::strided_inputs`, `strided_outputs`), if
/// the elements are not in rows at equal distances, or if a node overwrites the elements before their last read.
constexpr program slice_views(program const& p) {
  program out = p;
  if (p.failure.ok()) detail::make_views(out);
  return out;
}

} // namespace constrain
