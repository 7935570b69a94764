#pragma once

#include "constrain/op/tensor_gather/tensor_gather.hpp"
#include "constrain/op/tensor_sum/tensor_sum.hpp"
#include "constrain/pass/calls_to_divide.hpp"
#include "constrain/pass/rewrite.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Builds the program of one rank of a tensor group.
class dividing {
public:
  constexpr dividing(program const& p, int ranks)
      : p_(p), nest_(p), ranks_(ranks), calls_(p, ranks), out_(without_nodes(p)) {
    out_.program.tensor_ranks = ranks;
    out_.program.fail(calls_.failure());
  }

  /// The program of one rank, or the refused program.
  constexpr program run();

private:
  using division_kind = calls_to_divide::division_kind;

  /// Replaces a parameter with one rank's range of each of its parts.
  constexpr void divide_parameter(ref parameter, int dimension) {
    auto local = calls_.parts_of(parameter, dimension);
    auto& info = out_.program.values[parameter.value];
    if (info.divided >= 0) return; // another call has divided it
    info.divided = dimension;
    info.unused = calls_.unused(local);
    info.shape.extent[dimension] = (info.shape.extent[dimension] + info.unused) / ranks_;
    if (info.parts < 0 || p_.part_lists[info.parts].dimension != dimension) return;
    for (auto& extent : local.extents) extent /= ranks_;
    info.parts = out_.program.add_parts(local);
  }
  /// Divides the parameters that node i reads, along the dimension that its op's `layouts` call `name`.
  constexpr void divide_parameters(int i, char name) {
    auto const& n = p_.nodes[i];
    for (int k = 0; k < n.inputs.size(); ++k)
      if (int const dimension = calls_.dimension_of(i, k, name);
          dimension >= 0 && calls_.is_own_parameter(i, k, dimension))
        divide_parameter(n.inputs[k], dimension);
  }

  /// Gives the outputs of `n` their shapes on one rank.
  constexpr void infer_shapes(node const& n) {
    operand_types types;
    for (auto const& input : n.inputs) types.push_back(out_.type_of(input));
    auto const result = n.op->infer(types, n.attributes);
    if (result.reason != why::nothing) out_.program.fail(result.at(n.line, n.called_from));
    for (int j = 0; j < result.outputs.size(); ++j)
      out_.program.values[n.outputs[j].value].shape = result.outputs[j].shape;
  }
  /// Appends a call whose output 0 is divided, with the shapes of one rank.
  constexpr void append_divided(node n) {
    if (n.op->has_divide) {
      division d{ranks_, p_.values[n.inputs[0].value].shape.rank, calls_.parts_of(n.inputs[0])};
      n.op->divide(n.attributes, d);
    }
    infer_shapes(n);
    out_.program.values[n.outputs[0].value].unused = calls_.unused(calls_.parts_of(n.outputs[0]));
    out_.program.add_node(n);
  }

  /// Appends a call that computes one rank's partial sum, and then a call that all-reduces the partial sums and adds
  /// the bias, if `n` has one.
  constexpr void append_sum(node n) {
    int const added = n.op->layouts.inputs.added;
    node sum;
    sum.line = n.line;
    sum.outputs.push_back(n.outputs[0]);
    bool const has_added = added >= 0 && added == n.inputs.size() - 1;
    ref const bias = has_added ? n.inputs[added] : ref();
    if (has_added) n.inputs.pop_back();
    infer_shapes(n);
    n.outputs[0] = {out_.new_value(out_.type_of(n.outputs[0]), role::activation, n.line), at::current};
    out_.program.add_node(n);
    sum.inputs.push_back(n.outputs[0]);
    if (has_added) sum.inputs.push_back(bias);
    out_.append(info_of<op::tensor_sum>, sum);
  }

  /// Appends an all-gather of the features of the divided value `r`. Returns the result.
  constexpr ref append_gather(ref r, int line) {
    auto const& extents = calls_.parts_of(r).extents;
    return out_.call<op::tensor_gather>({r}, {}, {.features = extents[0], .ranks = ranks_}, line).outputs[0];
  }
  /// The value that the call at node i reads instead of `r`: the all-gathered features if `r` is divided; otherwise the
  /// result of an op::tensor_copy, whose gradient is summed over the ranks. All calls in one loop body that read `r`
  /// share this value.
  constexpr ref replacement_of(ref r, int i) {
    for (auto const& entry : replacements_)
      if (entry.replaced == r && entry.loop == nest_.parent[i]) return entry.result;
    int const line = p_.nodes[i].line;
    ref const result =
        calls_.is_divided(r) ? append_gather(r, line) : out_.call<op::tensor_copy>({r}, {}, {}, line).outputs[0];
    if (!replacements_.push_back({r, nest_.parent[i], result}))
      out_.program.fail(
          {why::program_too_large, line, p_.nodes[i].called_from, replacements_.capacity, replacements_.capacity + 1});
    return result;
  }

  struct replacement {
    ref replaced;  // the value that the calls read in `p_`
    int loop = -1; // the innermost loop around these calls; nest::root: none
    ref result;    // the value that they read instead: all-gathered features, or a copy
  };

  program const& p_;
  nest nest_;
  int ranks_;
  calls_to_divide calls_;
  builder out_;
  fixed_vector<replacement, 64> replacements_;
};

constexpr program dividing::run() {
  if (!out_.program.failure.ok()) return out_.program;
  rewrite_nodes(out_, p_, 0, p_.nodes.size(), [&](builder&, node n, int i) {
    if (n.kind != node_kind::call) return out_.program.add_node(n);
    out_.called_from = n.called_from;
    auto const& rule = n.op->layouts;
    switch (calls_.kind_of(i)) {
    case division_kind::not_at_all: return out_.program.add_node(n);
    case division_kind::continues:
    case division_kind::begins:
      divide_parameters(i, rule.outputs.inner_of(0));
      for (int k = 0; k < n.inputs.size(); ++k)
        // An op with `divide` needs no copies: its undivided inputs (lengths, positions, tables) have no gradient.
        if (calls_.dimension_of(i, k, rule.outputs.inner_of(0)) < 0 && !n.op->has_divide &&
            !calls_.is_divided(n.inputs[k]))
          n.inputs[k] = replacement_of(n.inputs[k], i);
      return append_divided(n);
    case division_kind::gathers:
      for (auto& input : n.inputs)
        if (calls_.is_divided(input)) input = replacement_of(input, i);
      return out_.program.add_node(n);
    case division_kind::replaced:
      if (calls_.is_vocabulary(n.inputs[0])) divide_parameter(n.inputs[0], 0);
      return n.op->divided_form(out_, n);
    case division_kind::ends:
      for (int k = 0; k < n.inputs.size(); ++k)
        if (calls_.is_divided(n.inputs[k])) {
          divide_parameters(i, rule.inputs.inner_of(k));
          break;
        }
      return append_sum(n);
    }
  });
  return out_.program;
}

} // namespace detail

/// Tensor parallelism (Shoeybi et al. 2019, Megatron-LM): each of `ranks` ranks computes an equally large range of the
/// features of a linear layer (column-parallel), and applies the following ops to this range. The next linear layer
/// sums over the features (row-parallel): each rank computes a partial sum, and the partial sums are all-reduced. The
/// parameters of both layers, except the second layer's bias, are divided. Each rank also has a range of the rows of a
/// vocabulary (an embedding table, or the weight of a head, with role::embedding, head or frozen), and of the classes
/// of the logits, if the vocabulary is outside of repeats and without parts, and has at least as many rows as columns,
/// rows for every rank, and only readers that look up rows or compute classes. A vocabulary whose role is not head must
/// have a reader that looks up rows. A call that looks up rows is replaced with its op's `divided_form`. A call that
/// needs all classes is replaced too, or reads all-gathered logits if its op has no `divided_form`. If the last rank
/// has fewer classes, every op without a `divided_form` reads all-gathered logits, except `soft_cap`. All other
/// parameters and values are the same on every rank.
///
/// A layer other than a head is column-parallel only if no other node reads its parameters, if all ops up to the next
/// linear layer name the features by a letter in their `layouts`, read no undivided activation with these features and
/// do not write the x of a repeat, if these ops and both layers draw no random numbers, if only the first output of
/// each of them is used, if the model returns neither the layer's result nor the result of one of these ops, if each
/// slice of the features consists of full parts (`part_list`), and if `ranks` divides the numbers of features (of each
/// part), heads and key-value heads. The input of the next linear layer must be one part. No other undivided operand of
/// this layer, except a bias, and no undivided operand of an op with `divide` may be a trained parameter or depend on
/// one. An operand that the op of this layer adds (`+` in `layouts`) must be a vector that the op's `infer` does not
/// need. Only the first 64 calls that could be column-parallel are considered. Layers that become row-parallel can be
/// among them, and a call in the body of a repeat counts once.
///
/// Refused: a model in which no layer and no vocabulary can be divided, a call that the `divide` of its op refuses
/// (`division::refuse`), unless another call prevents the division, and a model whose calls need more than 64
/// all-gathered or copied values. With one rank, the program does not change.
constexpr program divide(program const& p, int ranks) {
  if (ranks <= 1 || !p.failure.ok()) return p;
  return detail::dividing(p, ranks).run();
}

} // namespace constrain
