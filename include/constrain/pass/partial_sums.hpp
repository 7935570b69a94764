#pragma once

#include "constrain/pass/nest.hpp"
#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Whether a call accumulates into its output j, and output j is not also an input. If output j is a gradient, such a
/// call adds the contribution of one rank. Any other call that writes a gradient works on the sum over ranks, in the
/// same way on every rank.
constexpr bool adds_contribution(node const& n, int j) {
  return (n.op->accumulating >> j & 1u) != 0 && !n.inputs.contains(n.outputs[j]);
}

/// Finds where a program's sums over ranks (the gradients and the loss) are reduced. Each sum is reduced before the
/// first node that uses the sum, that is, reads or overwrites it. Call `contribute` and `use` in the order of the
/// nodes.
class partial_sums {
public:
  /// For the program `p` and its loop nest `loops`, which must outlive this object.
  constexpr partial_sums(program const& p, nest const& loops) : p_(p), loops_(loops), loss_(p.result("loss")) {
    for (int v = 0; v < p.values.size(); ++v)
      if (is_gradient(v) || v == loss_.value) {
        index_[v] = sums_.size();
        sums_.push_back({.value = v});
      }
  }

  /// Whether the value is the gradient of a parameter.
  constexpr bool is_gradient(int value) const { return p_.values[value].role == role::gradient; }
  /// Whether `r` is a gradient or the loss.
  constexpr bool contains(ref r) const { return is_gradient(r.value) || r == loss_; }
  /// Whether node n contributes to its output j, a gradient or the loss.
  constexpr bool contributes(node const& n, int j) const { return n.outputs[j] == loss_ || adds_contribution(n, j); }

  /// Records that node i contributes to a value. Refused: a contribution to the loss after a use of the loss, and what
  /// `check_complete` refuses. (Contributions to a gradient after a use are reduced separately.)
  constexpr void contribute(int value, int i) {
    auto& sum = sum_of(value);
    if (sum.use >= 0 && !is_gradient(value)) refuse(value, sum.use);
    check_complete(value, i, sum.use);
    sum.contribution = i;
  }

  /// Records that node i uses a value. Refused: what `check_complete` refuses.
  constexpr void use(int value, int i) {
    auto& sum = sum_of(value);
    check_complete(value, sum.contribution, i);
    if (sum.use < 0 && sum.contribution >= 0) {
      sum.reduced_after = sum.contribution;
      sum.reduced_before = loops_.child(loops_.common(sum.contribution, i), i);
    }
    sum.use = i;
  }

  /// Records that node i uses the loss, if the program has one.
  constexpr void use_loss(int i) {
    if (loss_) use(loss_.value, i);
  }

  /// Moves the reduction of each gradient to an earlier node before which another sum is reduced, if all contributions
  /// to the gradient before its first use precede that node, and the node is outside of all loops. As a result, the
  /// collectives follow one another. Call this function after the last node.
  constexpr void reduce_together() {
    for (auto& sum : sums_)
      for (auto const& candidate : sums_) {
        int const target = candidate.reduced_before;
        bool const is_earlier = target > sum.reduced_after && target < sum.reduced_before;
        if (is_gradient(sum.value) && is_earlier && loops_.parent[target] == nest::root) sum.reduced_before = target;
      }
  }

  /// Sets marks[i] for each node i before which a value is reduced. Call this function after the last node.
  constexpr void mark_reductions(bool (&marks)[program::maximum_nodes]) const {
    for (auto const& sum : sums_)
      if (sum.reduced_before >= 0) marks[sum.reduced_before] = true;
  }
  /// Calls f(value) for each value that is reduced before node i.
  template <class function> constexpr void for_each_before(int i, function const& f) const {
    for (auto const& sum : sums_)
      if (sum.reduced_before == i) f(sum.value);
  }

  /// The first error; `why::nothing` if every sum can be reduced before it is used.
  constexpr diagnosis failure() const { return failure_; }
  /// The last node so far that uses the value; -1: none.
  constexpr int last_use(int value) { return sum_of(value).use; }

private:
  /// The nodes found so far for one value; -1: none.
  struct tracked_sum {
    int value = -1;          // index of the value
    int contribution = -1;   // the last node that contributes
    int use = -1;            // the last node that uses the value
    int reduced_after = -1;  // the last contribution before the first use
    int reduced_before = -1; // the first use, or the outermost loop that contains this use but not the
                             // contribution; `reduce_together` may choose an earlier node
  };

  constexpr tracked_sum& sum_of(int value) { return sums_[index_[value]]; }

  /// Refuses a use in a loop that also contains a contribution, because the sum is complete only after the loop. Loops
  /// over an axis of the value are allowed, because each iteration has a separate sum.
  constexpr void check_complete(int value, int contribution, int use) {
    if (contribution < 0 || use < 0) return;
    for (int loop = loops_.common(contribution, use); loop != nest::root; loop = loops_.parent[loop]) {
      bool is_separate = false;
      for (int axis : p_.values[value].axes) is_separate = is_separate || p_.is_part_of(p_.nodes[loop].axis, axis);
      if (!is_separate) refuse(value, use);
    }
  }

  constexpr void refuse(int value, int use) {
    auto const& n = p_.nodes[use];
    if (failure_.ok())
      failure_ = diagnosis{why::partial_sum_is_read, n.line, n.called_from, 0, value}.with_layouts(
          n.op->label, layout::partial, layout::replicated);
  }

  program const& p_;
  nest const& loops_;
  ref loss_;
  diagnosis failure_;
  fixed_vector<tracked_sum, program::maximum_values> sums_;
  int index_[program::maximum_values]{}; // of a gradient or the loss: its index in `sums_`
};

} // namespace constrain::detail
