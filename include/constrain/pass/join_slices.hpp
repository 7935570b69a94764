#pragma once

#include "constrain/op/add/add.hpp"
#include "constrain/op/concatenate/concatenate.hpp"
#include "constrain/pass/fuse/uses.hpp"
#include "constrain/pass/nest.hpp"

#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Replaces sums of gradients of adjacent slices with concatenations.
class slice_joining {
public:
  /// `p` must outlive this object.
  constexpr explicit slice_joining(program& p) : p_(p), nest_(p) {
    for (int i = 0; i < p.nodes.size(); ++i)
      for (auto const& output : p.nodes[i].outputs) {
        bool const is_first = writers_[output.value] == 0;
        writers_[output.value] = is_first ? i + 1 : -1;
      }
  }

  /// Changes the constructor's argument.
  constexpr void run() {
    bool changed = false;
    for (int i = 0; i < p_.nodes.size(); ++i)
      if (calls(p_.nodes[i], info_of<op::add>) && join(i)) changed = true;
    if (changed) remove_nodes(p_, removed_);
  }

private:
  /// The index of the call to op::pad that computes `r`, if the call is in the loop of node i and only node i reads
  /// `r`; else -1.
  constexpr int pad_of(ref r, int i) const {
    int const writer = writers_[r.value] - 1;
    bool const is_pad = writer >= 0 && !removed_[writer] && calls(p_.nodes[writer], info_of<op::pad>);
    return is_pad && nest_.parent[writer] == nest_.parent[i] && read_by_only(p_, r, {i}) ? writer : -1;
  }

  /// If node i adds the gradients of two adjacent slices, replaces the sum with the gradient of the slice that consists
  /// of both. Returns whether the sum was replaced.
  constexpr bool join(int i) {
    auto const sum = p_.nodes[i].inputs;
    int first = pad_of(sum[0], i), second = pad_of(sum[1], i);
    if (first < 0 || second < 0 || first == second) return false;
    auto a = unpack<op::pad::options>(p_.nodes[first].attributes);
    auto b = unpack<op::pad::options>(p_.nodes[second].attributes);
    if (a.dimension != b.dimension) return false;
    if (b.begin < a.begin) {
      std::swap(a, b);
      std::swap(first, second);
    }
    ref const slice_gradients[] = {p_.nodes[first].inputs[0], p_.nodes[second].inputs[0]};
    auto const extent = [&](ref r) { return p_.values[r.value].shape.extent[a.dimension]; };
    if (a.begin + extent(slice_gradients[0]) != b.begin) return false;

    auto const joined_extent = extent(slice_gradients[0]) + extent(slice_gradients[1]);
    int const later_pad = first < second ? second : first;
    removed_[first] = removed_[second] = true;
    auto& n = p_.nodes[i];
    if (joined_extent != a.extent) {
      // The joined slice is not the full tensor, so its gradient must still be padded. The later of the two pads
      // becomes the concatenation, because both gradients are computed by then.
      ref const joined = p_.nodes[later_pad].outputs[0];
      p_.values[joined.value].shape = p_.values[slice_gradients[0].value].shape;
      p_.values[joined.value].shape.extent[a.dimension] = joined_extent;
      concatenate(p_.nodes[later_pad], slice_gradients, a.dimension);
      removed_[later_pad] = false;
      n.op = &info_of<op::pad>;
      n.attributes = pack(a);
      n.inputs.count = 0;
      n.inputs.push_back(joined);
    } else concatenate(n, slice_gradients, a.dimension);
    return true;
  }

  /// Makes `n` a call that concatenates these two operands along `dimension`.
  static constexpr void concatenate(node& n, ref const (&operands)[2], int dimension) {
    n.op = &info_of<op::concatenate>;
    n.attributes = pack(op::concatenate::options{.dimension = dimension});
    n.inputs.count = 0;
    for (auto const& operand : operands) n.inputs.push_back(operand);
  }

  program& p_;
  nest nest_;
  // By index of the value: 1 + the only node that writes it; 0: none; -1: several.
  int writers_[program::maximum_values]{};
  bool removed_[program::maximum_nodes]{};
};

/// Like `join_slices`, but changes `p` itself.
constexpr void join_adjacent_slices(program& p) {
  if (!p.failure.ok()) return;
  for (auto const& n : p.nodes)
    if (calls(n, info_of<op::pad>)) return slice_joining(p).run();
}

} // namespace detail

/// Replaces sums of gradients of adjacent slices with concatenations, so that fewer gradients are padded with zeros.
/// For example, the gradients of queries, keys and values are concatenated into the gradient of the tensor that holds
/// all three.
constexpr program join_slices(program const& p) {
  program out = p;
  detail::join_adjacent_slices(out);
  return out;
}

} // namespace constrain
