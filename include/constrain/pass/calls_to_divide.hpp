#pragma once

#include "constrain/op/soft_cap/soft_cap.hpp"
#include "constrain/pass/dead_code_elimination.hpp"
#include "constrain/pass/nest.hpp"
#include "constrain/pass/refusals.hpp"
#include "constrain/pass/trained_values.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Decides which calls of a program the pass `divide` divides over the ranks of a tensor group, and how. A division
/// begins at a linear layer, whose features the ranks compute separately, and ends at the layer that sums over these
/// features. Calls that read a vocabulary (a token embedding or the weight of a head) are divided too.
class calls_to_divide {
public:
  /// How a call is divided.
  enum class division_kind : unsigned char {
    not_at_all, // every rank runs the full call
    begins,     // reads divided parameters; output 0 is divided
    continues,  // reads divided values; output 0 is divided
    ends,       // sums over the divided features
    gathers,    // reads all features, gathered from the ranks
    replaced,   // by the op's `divided_form`
  };

  /// Decides for the forward program `p`, which must outlive this object. `ranks`: ranks in a tensor group, at least 2.
  constexpr calls_to_divide(program const& p, int ranks) : p_(p), trained_(p), ranks_(ranks) {
    for (int v = 0; v < p.values.size(); ++v) is_vocabulary_[v] = can_be_vocabulary(v);
    // Each repetition rules out a vocabulary or a call that can begin a division, so the loops end.
    do {
      begin_count_ = 0, vocabulary_begins_ = 0;
      for (int i = 0; i < p.nodes.size(); ++i) can_begin_[i] = find_begin(i);
      while (!propagate()) {}
    } while (!all_divide_vocabularies());
    for (auto kind : kinds_)
      if (kind != division_kind::not_at_all) return;
    if (!failure_.ok()) return;
    failure_ = stopped_by_ != nullptr ? diagnosis_with<refusals::nothing_is_divided>()
                                      : diagnosis_with<refusals::no_features_to_divide>();
    failure_.expected = ranks;
    failure_ = failure_.with_layouts(stopped_by_, layout::divided, layout::replicated);
  }

  /// Why the program is refused; `why::nothing` if it is not.
  constexpr diagnosis const& failure() const { return failure_; }
  /// How node i is divided.
  constexpr division_kind kind_of(int i) const { return kinds_[i]; }
  /// Whether the value `r` is divided over the ranks. `r` must not be a parameter.
  constexpr bool is_divided(ref r) const { return !values_[r.value].parts.extents.empty(); }
  /// The parts of a divided value along its innermost dimension.
  constexpr part_list const& parts_of(ref r) const { return values_[r.value].parts; }
  /// Whether the rows of the parameter are divided as a vocabulary.
  constexpr bool is_vocabulary(ref parameter) const { return is_vocabulary_[parameter.value]; }

  /// Whether input k of node i is a parameter that can be divided along `dimension`: a vocabulary if `dimension` is 0,
  /// any other parameter if node i is its only reader.
  constexpr bool is_own_parameter(int i, int k, int dimension) const {
    ref const r = p_.nodes[i].inputs[k];
    if (!is_parameter(p_.values[r.value].role)) return false;
    return is_vocabulary_[r.value] ? dimension == 0 : uses_of(r) == 1;
  }
  /// The dimension of input k of node i that has this name in the op's `layouts`; -1: none.
  constexpr int dimension_of(int i, int k, char name) const {
    auto const& side = rule_of(i).inputs;
    int const rank = shape_of(p_.nodes[i].inputs[k]).rank;
    return side.inner_of(k) == name ? rank - 1 : side.outer_of(k) == name ? rank - 2 : -1;
  }
  /// The parts of a parameter along `dimension`.
  constexpr part_list parts_of(ref parameter, int dimension) const {
    return p_.parts_along(p_.values[parameter.value], shape_of(parameter), dimension);
  }
  /// The number of indices by which the last rank's range is shorter than the other ranges, in a dimension with these
  /// parts.
  constexpr std::int64_t unused(part_list const& parts) const {
    return parts.extents.size() == 1 ? range_size(parts.extents[0]) * ranks_ - parts.extents[0] : 0;
  }

private:
  /// How a value is divided along its innermost dimension: each rank has a range of every part.
  struct value_division {
    part_list parts;            // of the full value, in this dimension; empty: the value is not divided
    std::uint64_t begin_mask{}; // bit k: the value is divided because of the call with `begin_index_` k
  };
  constexpr layout_rule const& rule_of(int i) const { return p_.nodes[i].op->layouts; }
  constexpr shape const& shape_of(ref r) const { return p_.values[r.value].shape; }
  /// The number of inputs of nodes that are the value `r`.
  constexpr int uses_of(ref r) const {
    int uses = 0;
    for (auto const& n : p_.nodes)
      for (auto const& input : n.inputs) uses += input.value == r.value ? 1 : 0;
    return uses;
  }
  /// Whether only output 0 of node `n` is used, the only output that can be divided: no node reads another output, and
  /// the model returns no other output.
  constexpr bool only_output_0_is_used(node const& n) const {
    for (int j = 1; j < n.outputs.size(); ++j)
      if (uses_of(n.outputs[j]) > 0 || is_observed(p_.values[n.outputs[j].value])) return false;
    return true;
  }

  /// Whether the rows of parameter v can be divided over the ranks: v is an embedding, head or frozen matrix outside of
  /// repeats, without parts and with enough rows for all ranks, and every call that reads v looks up rows or computes
  /// one feature for each row. If v is not a head, at least one call must look up rows. A matrix with fewer rows than
  /// columns, such as a table of token types, is not divided, because replicating it is cheaper.
  constexpr bool can_be_vocabulary(int v) const {
    auto const& info = p_.values[v];
    auto const& s = info.shape;
    bool const is_table = info.role == role::embedding || info.role == role::head || info.role == role::frozen;
    if (!is_table || s.rank != 2 || s.extent[0] < s.extent[1] || info.parts >= 0 || !info.axes.empty()) return false;
    if (range_size(s.extent[0]) * (ranks_ - 1) >= s.extent[0]) return false;
    bool is_used_as_vocabulary = info.role == role::head;
    for (int i = 0; i < p_.nodes.size(); ++i)
      for (int k = 0; k < p_.nodes[i].inputs.size(); ++k) {
        if (p_.nodes[i].inputs[k].value != v) continue;
        if (looks_up(i, k)) is_used_as_vocabulary = true;
        else if (char const name = rule_of(i).outputs.inner_of(0); name == 0 || dimension_of(i, k, name) != 0)
          return false;
      }
    return is_used_as_vocabulary;
  }
  /// Whether input k of node i is a table in which the op looks up rows, and the op has a form that works on one rank's
  /// rows. In a forward program, input 0 of the other ops with such a form is the logits, which have the pattern `...`
  /// in the op's `layouts`.
  constexpr bool looks_up(int i, int k) const {
    auto const& op = *p_.nodes[i].op;
    return k == 0 && op.has_divided_form && (op.layouts.inputs.rows & 1u) == 0;
  }
  /// Whether all calls that read vocabularies work on one rank's rows. If a call does not, the parameters that it reads
  /// no longer count as vocabularies.
  constexpr bool all_divide_vocabularies() {
    bool all_divide = true;
    for (int i = 0; i < p_.nodes.size(); ++i)
      for (auto const& input : p_.nodes[i].inputs)
        if (is_vocabulary_[input.value] && kinds_[i] != division_kind::begins && kinds_[i] != division_kind::replaced)
          is_vocabulary_[input.value] = all_divide = false;
    return all_divide;
  }
  /// The number of indices in one rank's range, out of `extent`; the last rank may have fewer.
  constexpr std::int64_t range_size(std::int64_t extent) const { return (extent + ranks_ - 1) / ranks_; }
  /// Whether each rank can have a range of every part. The ranges of a vocabulary need not be equally long.
  constexpr bool can_divide(part_list const& parts, bool is_vocabulary) const {
    if (is_vocabulary) return parts.extents.size() == 1;
    for (auto extent : parts.extents)
      if (extent % ranks_ != 0) return false;
    return !parts.extents.empty();
  }

  /// Whether node i can begin a division: the innermost dimension of output 0 appears in at least one input, all inputs
  /// in which it appears are parameters that can be divided along it (`is_own_parameter`, `can_divide`), into the same
  /// parts, only output 0 is used, and the op has no `divide`, which needs an input 0 that is already divided. If so,
  /// records these parts and numbers the node. At most 64 nodes can begin a division, because
  /// `value_division::begin_mask` has 64 bits.
  constexpr bool find_begin(int i) {
    auto const& n = p_.nodes[i];
    if (n.kind != node_kind::call || n.op->has_divide || begin_count_ == 64) return false;
    char const name = rule_of(i).outputs.inner_of(0);
    bool can_begin = false, reads_a_vocabulary = false;
    for (auto const& input : n.inputs) reads_a_vocabulary = reads_a_vocabulary || is_vocabulary_[input.value];
    for (int k = 0; name != 0 && k < n.inputs.size(); ++k) {
      int const dimension = dimension_of(i, k, name);
      if (dimension < 0) continue;
      if (!is_own_parameter(i, k, dimension)) return false;
      if (!can_divide(parts_of(n.inputs[k], dimension), reads_a_vocabulary)) return false;
      if (can_begin && parts_of(n.inputs[k], dimension).extents != begin_parts_[i].extents) return false;
      begin_parts_[i] = parts_of(n.inputs[k], dimension);
      can_begin = true;
    }
    can_begin = can_begin && only_output_0_is_used(n);
    if (can_begin && reads_a_vocabulary) vocabulary_begins_ |= std::uint64_t(1) << begin_count_;
    if (can_begin) begin_index_[i] = begin_count_++;
    return can_begin;
  }

  /// Follows the divided values through all nodes. If a reader can neither work on one rank's ranges nor gather all
  /// ranges, marks the calls that began the division as unable to begin, and returns false.
  constexpr bool propagate() {
    failure_ = {};
    for (auto& v : values_) v = {};
    for (int i = 0; i < p_.nodes.size(); ++i) {
      kinds_[i] = division_kind::not_at_all;
      std::uint64_t begin_mask = 0;
      for (auto const& input : p_.nodes[i].inputs) begin_mask |= values_[input.value].begin_mask;
      if (reads_vocabulary(i)) kinds_[i] = division_kind::replaced;
      else if (begin_mask == 0 && can_begin_[i]) begin(i);
      else if (begin_mask != 0 && !try_divide(i, begin_mask)) {
        if (!can_gather(begin_mask)) return rule_out(begin_mask, p_.nodes[i].op->label);
        kinds_[i] = division_kind::gathers;
      }
    }
    return true;
  }
  constexpr bool reads_vocabulary(int i) const {
    auto const& n = p_.nodes[i];
    return n.kind == node_kind::call && !n.inputs.empty() && looks_up(i, 0) && is_vocabulary_[n.inputs[0].value];
  }
  /// Whether a value that is divided because of the calls in `begin_mask` can be gathered for readers that cannot work
  /// on one rank's ranges. Only heads allow this, so that all entry programs divide a head alike, whatever op reads the
  /// logits.
  constexpr bool can_gather(std::uint64_t begin_mask) const { return (begin_mask & ~vocabulary_begins_) == 0; }
  /// Marks the calls in `begin_mask`, except heads, as unable to begin. Returns false. `op`: the op that cannot work on
  /// one rank's ranges.
  constexpr bool rule_out(std::uint64_t begin_mask, op_label const* op = nullptr) {
    if (stopped_by_ == nullptr) stopped_by_ = op;
    begin_mask &= ~vocabulary_begins_;
    for (int i = 0; i < p_.nodes.size(); ++i)
      if (can_begin_[i] && (begin_mask >> begin_index_[i] & 1u) != 0) can_begin_[i] = false;
    return false;
  }
  /// Begins a division at node i.
  constexpr void begin(int i) {
    kinds_[i] = division_kind::begins;
    values_[p_.nodes[i].outputs[0].value] = {begin_parts_[i], std::uint64_t(1) << begin_index_[i]};
  }

  /// Whether node i can work on one rank's ranges. If so, records how. Node i must read a divided value. `begin_mask`:
  /// the calls because of which its inputs are divided, as in `value_division`.
  constexpr bool try_divide(int i, std::uint64_t begin_mask) {
    auto const& n = p_.nodes[i];
    auto const& rule = rule_of(i);
    if (is_divided(n.inputs[0]) && n.op->has_divided_form && can_gather(begin_mask)) {
      kinds_[i] = division_kind::replaced;
      return true;
    }
    char name = 0; // the name of the divided dimension
    part_list parts;
    for (int k = 0; k < n.inputs.size(); ++k) {
      if (!is_divided(n.inputs[k])) continue;
      // In `predict`, the host needs the model's full result, so no other entry program may divide the result for an
      // objective.
      if (n.inputs[k] == p_.result("logits") && !can_gather(begin_mask)) return false;
      auto const& input_parts = values_[n.inputs[k].value].parts;
      if (name == 0) name = rule.inputs.inner_of(k), parts = input_parts;
      bool const matches = rule.inputs.inner_of(k) == name && input_parts.extents.size() == parts.extents.size();
      if (name == 0 || !matches || (!n.op->has_divide && input_parts.extents != parts.extents)) return false;
    }
    if (!only_output_0_is_used(n)) return false;
    bool const ends = rule.outputs.inner_of(0) != name;
    if (ends && (parts.extents.size() != 1 || n.op->has_divide)) return false;
    if (ends && !can_add_after_sum(n)) return false;
    // Unused columns hold 0. At 0, an op may have no finite derivative, but soft_cap has one. A sum over the features,
    // or an op with `divide`, also needs ranges of equal length.
    if (unused(parts) > 0 && n.op != &info_of<op::soft_cap>) return false;
    for (int k = 0; k < n.inputs.size(); ++k) {
      int const dimension = dimension_of(i, k, name);
      if (is_divided(n.inputs[k])) continue;
      if (dimension < 0 && loses_gradient(n, k, ends)) return false;
      if (dimension < 0) continue;
      if (!is_own_parameter(i, k, dimension) || parts_of(n.inputs[k], dimension).extents != parts.extents) return false;
    }
    kinds_[i] = ends ? division_kind::ends : division_kind::continues;
    if (ends) return true;
    // Repeats, accumulators and the host need the full result.
    auto const& result_info = p_.values[n.outputs[0].value];
    if (result_info.is_loop_carried() || result_info.accumulates || is_observed(result_info)) return false;
    division d{ranks_, shape_of(n.inputs[0]).rank, parts};
    auto options = n.attributes;
    if (n.op->has_divide && !n.op->divide(options, d)) {
      d.failure.line = n.line, d.failure.called_from = n.called_from;
      if (d.failure.ok() || can_gather(begin_mask)) return false;
      // A later call may rule out the division, and so this failure.
      if (failure_.ok()) failure_ = d.failure.with_layouts(n.op->label, layout::divided, layout::replicated);
    }
    values_[n.outputs[0].value] = {d.parts, begin_mask};
    return true;
  }

  /// Whether the input that node `n` adds (`+` in `layouts`) can be added once, after a sum over the ranks
  /// (op::tensor_sum), instead of by `n`: it is the last input and a vector, and the op's `infer` does not need it.
  /// Also true without such an input.
  constexpr bool can_add_after_sum(node const& n) const {
    int const added = n.op->layouts.inputs.added;
    if (added < 0 || added >= n.inputs.size()) return true;
    if (added != n.inputs.size() - 1 || shape_of(n.inputs[added]).rank != 1) return false;
    operand_types others;
    for (int k = 0; k < added; ++k) others.push_back({p_.values[n.inputs[k].value].type, shape_of(n.inputs[k])});
    return n.op->infer(others, n.attributes).reason == why::nothing;
  }

  /// Whether a rank would have only its part of the gradient of input k, which is not divided. `ends`: whether node `n`
  /// ends a division. Other nodes read a copy of the input, whose gradient is summed over the ranks, unless their op
  /// has `divide`.
  constexpr bool loses_gradient(node const& n, int k, bool ends) const {
    return trained_.contains[n.inputs[k].value] && (ends ? k != n.op->layouts.inputs.added : n.op->has_divide);
  }

  program const& p_;
  trained_values trained_;
  int ranks_;
  diagnosis failure_;
  op_label const* stopped_by_ = nullptr; // the first op that cannot work on one rank's ranges
  int begin_count_ = 0;                  // number of calls that can begin a division, before any is ruled out
  std::uint64_t vocabulary_begins_ = 0;  // bit k: the call with `begin_index_` k is a head whose weight is a vocabulary
  bool is_vocabulary_[program::maximum_values]{};
  bool can_begin_[program::maximum_nodes]{};  // whether this call can begin a division
  int begin_index_[program::maximum_nodes]{}; // the index of a call among all calls that can begin a division
  division_kind kinds_[program::maximum_nodes]{};
  part_list begin_parts_[program::maximum_nodes]{}; // the parts of the output of a call that can begin
  value_division values_[program::maximum_values]{};
};

} // namespace constrain::detail
