#pragma once

#include "constrain/device/cuda/tiles.hpp"
#include "constrain/op/sum_parts/sum_parts.hpp"
#include "constrain/pass/rewrite.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// A gradient whose parts are summed by a call that is not appended yet. `line` and `called_from`: as in `node`, of the
/// call that computes the parts.
struct deferred_sum {
  ref parts, gradient;
  int line = 0, called_from = 0;
};

/// Lets calls leave their sums over rows in parts, and later appends the calls that sum these parts: the deferred sums.
class deferred_sums {
public:
  constexpr explicit deferred_sums(program const& p) : p_(p) {}

  /// Whether the node n is a call with outputs that are sums over rows, all of which are gradients.
  constexpr bool sums_gradients(node const& n) const {
    if (n.kind != node_kind::call || n.op->row_sums == 0) return false;
    for (int j = 0; j < n.outputs.size(); ++j)
      if ((n.op->row_sums >> j & 1u) != 0 && p_.values[n.outputs[j].value].role != role::gradient) return false;
    return true;
  }

  /// Appends the call n, changed to leave its sums in parts, and defers the sums of the parts.
  constexpr void append_in_parts(builder& out, node n) {
    node const original = n;
    n.attributes = pack(row_sum_options{row_parts(p_.values[n.inputs[0].value].shape.rows())});
    for (int j = 0; j < n.outputs.size(); ++j)
      if ((n.op->row_sums >> j & 1u) != 0) n.outputs[j] = {};
    out.called_from = n.called_from;
    n = out.append(*n.op, n);
    for (int j = 0; j < n.outputs.size(); ++j)
      if ((n.op->row_sums >> j & 1u) != 0) sums_.push_back({n.outputs[j], original.outputs[j], n.line, n.called_from});
  }

  /// Whether the node n reads any gradient, or writes a gradient that a deferred sum also writes. (Any gradient counts,
  /// so that no sum comes between consecutive nodes that read gradients.)
  constexpr bool are_needed_by(node const& n) const {
    for (auto const& input : n.inputs)
      if (p_.values[input.value].role == role::gradient) return true;
    for (auto const& sum : sums_)
      if (n.outputs.contains(sum.gradient)) return true;
    return false;
  }

  /// Appends all deferred sums, one after another, and clears the list.
  constexpr void append_sums(builder& out) {
    for (auto const& sum : sums_) {
      node n;
      n.line = sum.line;
      n.backward = true;
      n.inputs.push_back(sum.parts), n.outputs.push_back(sum.gradient);
      out.called_from = sum.called_from;
      out.append(info_of<op::sum_parts>, n);
    }
    sums_.count = 0;
  }

private:
  program const& p_;
  fixed_vector<deferred_sum, program::maximum_nodes> sums_;
};

} // namespace detail

/// For a device whose kernels sum rows in parts, one part per thread block: lets calls leave their sums in parts
/// (`op_info::row_sums`) and inserts the sums of the parts of all gradients next to each other, before the beginning or
/// end of a loop, before the first node that reads a gradient or writes one of these gradients, or at the end of the
/// program. The device merges as many of these calls as possible into one launch. A program that would become too large
/// does not change.
constexpr program sum_parts_together(program const& p) {
  if (!p.failure.ok()) return p;
  auto out = without_nodes(p);
  detail::deferred_sums deferred(p);
  rewrite_nodes(out, p, 0, p.nodes.size(), [&](builder&, node const& n, int) {
    if (n.kind != node_kind::call || deferred.are_needed_by(n)) deferred.append_sums(out);
    if (deferred.sums_gradients(n)) deferred.append_in_parts(out, n);
    else out.program.add_node(n);
  });
  deferred.append_sums(out);
  return out.program.failure.ok() ? out.program : p;
}

} // namespace constrain
