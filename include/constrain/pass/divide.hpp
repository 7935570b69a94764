#pragma once

#include "constrain/op/tensor_gather/tensor_gather.hpp"
#include "constrain/op/tensor_sum/tensor_sum.hpp"
#include "constrain/pass/nest.hpp"
#include "constrain/pass/refusals.hpp"
#include "constrain/pass/rewrite.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Divides the calls from a linear layer, whose features are computed separately, to the layer that sums over them, and
/// the calls that read a vocabulary: a table of tokens, or the weight of a head.
class dividing {
public:
  constexpr dividing(program const& p, int ranks) : p_(p), nest_(p), ranks_(ranks), out_(without_nodes(p)) {
    out_.program.tensor_ranks = ranks;
    for (int v = 0; v < p.values.size(); ++v) is_vocabulary_[v] = can_be_vocabulary(v);
    do {
      begins_ = 0, begin_tables_ = 0;
      for (int i = 0; i < p.nodes.size(); ++i) can_begin_[i] = finds_parameters(i);
      while (!follow_all()) {}
    } while (!all_divide_vocabularies());
    for (auto h : how_)
      if (h != how::not_at_all) return;
    out_.program.fail(
        diagnosis_with<refusals::nothing_is_divided>().with_layouts(stopped_by_, layout::divided, layout::replicated));
  }

  constexpr program run();

private:
  /// A value that is divided along its innermost dimension: each rank has a range of every part.
  struct divided {
    part_list parts;           // of the full value, in this dimension; empty: the value is not divided
    std::uint64_t begins_at{}; // bit k: it depends on the beginning call with number k
  };
  /// How a call is divided.
  enum class how : unsigned char {
    not_at_all,
    begins,
    goes_on,
    ends,
    gathers,  // reads all features
    replaced, // by the op's `divided_form`
  };

  constexpr layout_rule const& rule_of(int i) const { return p_.nodes[i].op->layouts; }
  constexpr bool is_divided(ref r) const { return !values_[r.value].parts.extents.empty(); }
  constexpr shape const& shape_of(ref r) const { return p_.values[r.value].shape; }

  /// Whether a rank can have a range of the rows of parameter v, because every call that reads it looks up rows, or has
  /// the rows as features. Wide tables of few rows, as of token types, are cheaper on every rank.
  constexpr bool can_be_vocabulary(int v) const {
    auto const& info = p_.values[v];
    auto const& s = info.shape;
    bool const is_table = info.role == role::embedding || info.role == role::head || info.role == role::frozen;
    if (!is_table || s.rank != 2 || s.extent[0] < s.extent[1] || info.parts >= 0 || !info.axes.empty()) return false;
    if (range_of(s.extent[0]) * (ranks_ - 1) >= s.extent[0]) return false;
    for (auto const& port : p_.ports)
      if (port.where.value == v) return false;
    bool is_read = info.role == role::head;
    for (int i = 0; i < p_.nodes.size(); ++i)
      for (int k = 0; k < p_.nodes[i].inputs.size(); ++k) {
        if (p_.nodes[i].inputs[k].value != v) continue;
        if (looks_up(i, k)) is_read = true;
        else if (char const name = rule_of(i).outputs.inner_of(0); name == 0 || dimension_of(i, k, name) != 0)
          return false;
      }
    return is_read;
  }
  /// Whether input k of node i is a table of which the call reads some rows, and can read those of one rank.
  constexpr bool looks_up(int i, int k) const {
    auto const& op = *p_.nodes[i].op;
    return k == 0 && op.has_divided_form && (op.layouts.inputs.rows & 1u) == 0;
  }
  /// Whether every call that reads a vocabulary works on a rank's rows. If not, forgets the vocabularies of those that
  /// do not.
  constexpr bool all_divide_vocabularies() {
    bool all = true;
    for (int i = 0; i < p_.nodes.size(); ++i)
      for (auto const& input : p_.nodes[i].inputs)
        if (is_vocabulary_[input.value] && how_[i] != how::begins && how_[i] != how::replaced)
          is_vocabulary_[input.value] = all = false;
    return all;
  }
  /// Elements in the range of a rank, out of `extent`; the last rank may have fewer.
  constexpr std::int64_t range_of(std::int64_t extent) const { return (extent + ranks_ - 1) / ranks_; }
  constexpr std::int64_t unused(part_list const& parts) const {
    return parts.extents.size() == 1 ? range_of(parts.extents[0]) * ranks_ - parts.extents[0] : 0;
  }

  /// Whether input k of node i is a parameter that can be divided along `dimension`: no other node reads it, or all can
  /// read a part.
  constexpr bool is_own_parameter(int i, int k, int dimension) const {
    ref const r = p_.nodes[i].inputs[k];
    if (!is_parameter(p_.values[r.value].role)) return false;
    if (is_vocabulary_[r.value]) return dimension == 0;
    int readers = 0;
    for (auto const& n : p_.nodes)
      for (auto const& input : n.inputs) readers += input.value == r.value ? 1 : 0;
    for (auto const& port : p_.ports) readers += port.where == r ? 1 : 0;
    return readers == 1;
  }
  /// The dimension of input k that has this name; -1: none.
  constexpr int dimension_of(int i, int k, char name) const {
    auto const& side = rule_of(i).inputs;
    int const rank = shape_of(p_.nodes[i].inputs[k]).rank;
    return side.inner_of(k) == name ? rank - 1 : side.outer_of(k) == name ? rank - 2 : -1;
  }
  constexpr part_list parts_of(ref parameter, int dimension) const {
    return p_.parts_along(p_.values[parameter.value], shape_of(parameter), dimension);
  }
  constexpr bool can_divide(part_list const& parts, bool is_vocabulary) const {
    if (is_vocabulary) return parts.extents.size() == 1;
    for (auto extent : parts.extents)
      if (extent % ranks_ != 0) return false;
    return !parts.extents.empty();
  }

  /// Whether node i can begin: only its own parameters have the innermost dimension of output 0, and can be divided.
  constexpr bool finds_parameters(int i) {
    auto const& n = p_.nodes[i];
    if (n.kind != node_kind::call || begins_ == 64) return false;
    char const name = rule_of(i).outputs.inner_of(0);
    bool found = false, of_vocabulary = false;
    for (auto const& input : n.inputs) of_vocabulary = of_vocabulary || is_vocabulary_[input.value];
    for (int k = 0; name != 0 && k < n.inputs.size(); ++k) {
      int const dimension = dimension_of(i, k, name);
      if (dimension < 0) continue;
      if (!is_own_parameter(i, k, dimension)) return false;
      if (!can_divide(parts_of(n.inputs[k], dimension), of_vocabulary)) return false;
      if (found && parts_of(n.inputs[k], dimension).extents != begin_parts_[i].extents) return false;
      begin_parts_[i] = parts_of(n.inputs[k], dimension);
      found = true;
    }
    if (found && of_vocabulary) begin_tables_ |= std::uint64_t(1) << begins_;
    if (found) number_[i] = begins_++;
    return found;
  }

  /// Follows the divided values through all nodes. If some reader cannot work on parts, marks the calls that began them
  /// as unable to begin, and returns false.
  constexpr bool follow_all() {
    for (auto& v : values_) v = {};
    for (int i = 0; i < p_.nodes.size(); ++i) {
      how_[i] = how::not_at_all;
      std::uint64_t begins_at = 0;
      for (auto const& input : p_.nodes[i].inputs) begins_at |= values_[input.value].begins_at;
      if (reads_vocabulary(i)) how_[i] = how::replaced;
      else if (begins_at == 0 && can_begin_[i]) begin(i);
      else if (begins_at != 0 && !follow(i, begins_at)) {
        if (!can_gather(begins_at)) return give_up(begins_at, p_.nodes[i].op->label);
        how_[i] = how::gathers;
      }
    }
    for (auto const& port : p_.ports)
      if (port.where && is_divided(port.where) && !can_gather(values_[port.where.value].begins_at))
        return give_up(values_[port.where.value].begins_at);
    return true;
  }
  constexpr bool reads_vocabulary(int i) const {
    auto const& n = p_.nodes[i];
    return n.kind == node_kind::call && !n.inputs.empty() && looks_up(i, 0) && is_vocabulary_[n.inputs[0].value];
  }
  /// Whether a value that these calls began is gathered for readers that cannot work on parts: so all entries of a model
  /// divide the same head, whatever reads the logits.
  constexpr bool can_gather(std::uint64_t begins_at) const { return (begins_at & ~begin_tables_) == 0; }
  /// `op`: what cannot work on parts, if it is a call.
  constexpr bool give_up(std::uint64_t begins_at, op_label const* op = nullptr) {
    if (stopped_by_ == nullptr) stopped_by_ = op;
    begins_at &= ~begin_tables_;
    for (int i = 0; i < p_.nodes.size(); ++i)
      if (can_begin_[i] && (begins_at >> number_[i] & 1u) != 0) can_begin_[i] = false;
    return false;
  }
  constexpr void begin(int i) {
    how_[i] = how::begins;
    values_[p_.nodes[i].outputs[0].value] = {begin_parts_[i], std::uint64_t(1) << number_[i]};
  }

  /// Whether node i, which reads divided values, can work on the ranges of one rank.
  constexpr bool follow(int i, std::uint64_t begins_at) {
    auto const& n = p_.nodes[i];
    auto const& rule = rule_of(i);
    if (is_divided(n.inputs[0]) && n.op->has_divided_form && can_gather(begins_at)) {
      how_[i] = how::replaced;
      return true;
    }
    char name = 0; // of the divided dimension
    part_list parts;
    for (int k = 0; k < n.inputs.size(); ++k) {
      if (!is_divided(n.inputs[k])) continue;
      auto const& here = values_[n.inputs[k].value].parts;
      if (name == 0) name = rule.inputs.inner_of(k), parts = here;
      bool const agrees = rule.inputs.inner_of(k) == name && here.extents.size() == parts.extents.size();
      if (name == 0 || !agrees || (!n.op->has_divide && here.extents != parts.extents)) return false;
    }
    bool const ends = rule.outputs.inner_of(0) != name;
    if (ends && (parts.extents.size() != 1 || n.op->has_divide)) return false;
    if (unused(parts) > 0 && (ends || n.op->has_divide)) return false;
    for (int k = 0; k < n.inputs.size(); ++k) {
      int const dimension = dimension_of(i, k, name);
      if (dimension < 0 || is_divided(n.inputs[k])) continue;
      if (!is_own_parameter(i, k, dimension) || parts_of(n.inputs[k], dimension).extents != parts.extents) return false;
    }
    how_[i] = ends ? how::ends : how::goes_on;
    if (ends) return true;
    auto const& to = p_.values[n.outputs[0].value];
    if (to.is_loop_carried() || to.accumulates || n.op->draws_random) return false;
    division d{ranks_, shape_of(n.inputs[0]).rank, parts};
    auto options = n.attributes;
    if (n.op->has_divide && !n.op->divide(options, d)) {
      d.failure.line = n.line, d.failure.called_from = n.called_from;
      bool const is_refused = !d.failure.ok() && !can_gather(begins_at);
      if (is_refused) out_.program.fail(d.failure.with_layouts(n.op->label, layout::divided, layout::replicated));
      return false;
    }
    values_[n.outputs[0].value] = {d.parts, begins_at};
    return true;
  }

  /// Replaces a parameter by the ranges of one rank.
  constexpr void divide_parameter(ref parameter, int dimension) {
    auto local = parts_of(parameter, dimension);
    auto& info = out_.program.values[parameter.value];
    if (info.divided >= 0) return; // by another call
    info.divided = dimension;
    info.unused = unused(local);
    info.shape.extent[dimension] = (info.shape.extent[dimension] + info.unused) / ranks_;
    if (local.extents.size() == 1) return;
    for (auto& extent : local.extents) extent /= ranks_;
    info.parts = out_.program.add_parts(local);
  }
  constexpr void divide_parameters(int i, char name) {
    auto const& n = p_.nodes[i];
    for (int k = 0; k < n.inputs.size(); ++k)
      if (int const dimension = dimension_of(i, k, name); dimension >= 0 && is_own_parameter(i, k, dimension))
        divide_parameter(n.inputs[k], dimension);
  }

  /// Appends a call whose output 0 is divided.
  constexpr void append_part(node n) {
    if (n.op->has_divide) {
      division d{ranks_, shape_of(n.inputs[0]).rank, values_[n.inputs[0].value].parts};
      n.op->divide(n.attributes, d);
    }
    operand_types types;
    for (auto const& input : n.inputs) types.push_back(out_.type_of(input));
    auto const result = n.op->infer(types, n.attributes);
    if (result.reason != why::nothing) out_.program.fail(result.at(n.line, n.called_from));
    for (int j = 0; j < result.outputs.size(); ++j)
      out_.program.values[n.outputs[j].value].shape = result.outputs[j].shape;
    out_.program.values[n.outputs[0].value].unused = unused(values_[n.outputs[0].value].parts);
    out_.program.add_node(n);
    for (auto& port : out_.program.ports)
      if (port.where == n.outputs[0]) port.where = gathered(n.outputs[0], n.line);
  }

  /// Appends a call that computes each rank's part of a sum, and the sum over the ranks, which also adds the bias.
  constexpr void append_sum(node n, int i) {
    int const added = rule_of(i).inputs.added;
    node sum;
    sum.line = n.line;
    sum.outputs.push_back(n.outputs[0]);
    bool const has_added = added >= 0 && added == n.inputs.size() - 1;
    ref const bias = has_added ? n.inputs[added] : ref();
    if (has_added) n.inputs.pop_back();
    n.outputs[0] = {};
    sum.inputs.push_back(out_.append(*n.op, n).outputs[0]);
    if (has_added) sum.inputs.push_back(bias);
    to_communication(out_.append(info_of<op::tensor_sum>, sum).outputs[1]);
  }
  constexpr void to_communication(ref buffer) { out_.program.values[buffer.value].role = role::communication; }

  /// All features of the divided value `r`.
  constexpr ref gathered(ref r, int line) {
    auto const& extents = values_[r.value].parts.extents;
    auto const node = out_.call<op::tensor_gather>({r}, {}, {.features = extents[0], .ranks = ranks_}, line);
    to_communication(node.outputs[1]);
    return node.outputs[0];
  }
  /// The copy of `r` that divided calls read, or, of a divided value, all its features. All calls in one loop body share
  /// it.
  constexpr ref copy_of(ref r, int i) {
    for (auto const& c : copies_)
      if (c.of == r && c.loop == nest_.parent[i]) return c.copy;
    int const line = p_.nodes[i].line;
    ref const copy = is_divided(r) ? gathered(r, line) : out_.call<op::tensor_copy>({r}, {}, {}, line).outputs[0];
    if (!copies_.push_back({r, nest_.parent[i], copy}))
      out_.program.fail({why::program_too_large, p_.nodes[i].line, 0, copies_.capacity, copies_.capacity + 1});
    return copy;
  }

  struct shared_copy {
    ref of;        // the value
    int loop = -1; // around the copy
    ref copy;      // the value's copy
  };

  program const& p_;
  nest nest_;
  int ranks_;
  builder out_;
  op_label const* stopped_by_ = nullptr;     // the first op that could not work on parts
  int begins_ = 0;                           // number of calls that could begin before the first give_up
  std::uint64_t begin_tables_ = 0;           // bit k: number k is a head, with a vocabulary as its weight
  bool is_vocabulary_[program::maximum_values]{};
  bool can_begin_[program::maximum_nodes]{}; // the output of this call may be divided
  int number_[program::maximum_nodes]{};     // of a call that can begin
  how how_[program::maximum_nodes]{};
  part_list begin_parts_[program::maximum_nodes]{}; // of the output of a call that can begin
  divided values_[program::maximum_values]{};
  fixed_vector<shared_copy, 64> copies_;
};

// Defined after the class: clang 14 evaluates member templates only after their definition.
constexpr program dividing::run() {
  if (!out_.program.failure.ok()) return out_.program;
  rewrite_nodes(out_, p_, 0, p_.nodes.size(), [&](builder&, node n, int i) {
    if (n.kind != node_kind::call) return out_.program.add_node(n);
    out_.called_from = n.called_from;
    auto const& rule = rule_of(i);
    switch (how_[i]) {
    case how::not_at_all: return out_.program.add_node(n);
    case how::goes_on:
    case how::begins:
      divide_parameters(i, rule.outputs.inner_of(0));
      for (int k = 0; k < n.inputs.size(); ++k)
        // Also not the lengths of attention.
        if (dimension_of(i, k, rule.outputs.inner_of(0)) < 0 && !n.op->has_divide && !is_divided(n.inputs[k]))
          n.inputs[k] = copy_of(n.inputs[k], i);
      return append_part(n);
    case how::gathers:
      for (auto& input : n.inputs)
        if (is_divided(input)) input = copy_of(input, i);
      return out_.program.add_node(n);
    case how::replaced:
      if (is_vocabulary_[n.inputs[0].value]) divide_parameter(n.inputs[0], 0);
      return n.op->divided_form(out_, n);
    case how::ends:
      for (int k = 0; k < n.inputs.size(); ++k)
        if (is_divided(n.inputs[k])) {
          divide_parameters(i, rule.inputs.inner_of(k));
          break;
        }
      return append_sum(n, i);
    }
  });
  return out_.program;
}

} // namespace detail

/// Tensor parallelism (Shoeybi et al. 2019, Megatron-LM): each of `ranks` ranks computes an equal range of the features
/// of a linear layer, and applies the following ops to this range. Of the next linear layer, which sums over the
/// features, each rank computes a part of the sum, and the parts are added. The parameters of both layers are divided.
/// All other parameters and values are the same on every rank. A layer is divided if all ops up to the next layer
/// declare letters in their `layouts`, and if `ranks` divides the number of features and of heads.
constexpr program divide(program const& p, int ranks) {
  if (ranks <= 1 || !p.failure.ok()) return p;
  return detail::dividing(p, ranks).run();
}

} // namespace constrain
