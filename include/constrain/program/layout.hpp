#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// How the ranks that train together hold a tensor. Compare PyTorch's DTensor and ZeRO (Rajbhandari et al. 2020).
enum class layout : std::uint8_t {
  replicated, // every rank holds the full tensor or, of an activation, the slice for the rank's samples
  partial,    // the tensor is the sum of the tensors that the ranks hold
  flat,       // every rank holds a range of the flattened tensor, its shard (shard_map)
  divided,    // every rank of a tensor group holds a range of each part of one dimension; only errors name this layout:
              // values have `replicated` and `value_info::divided`
};

/// The layouts of input 0 and output 0 of an op. They differ only for the ops in op/collective.
struct layout_change {
  layout from = layout::replicated; // of input 0
  layout to = layout::replicated;   // of output 0
};

/// Which elements of an op's outputs depend on which elements of its inputs. An op declares this in one line, with a
/// pattern for each input and, after `->`, for each output:
///
///     static constexpr char const* layouts = "...i, oi, +o -> ...o"; // linear: x, weight, bias -> y
///
///     *    element i of every output needs only element i of this input; with block-wise optimizer states, the
///          elements of a block need only elements of the same block; all outputs must have this pattern too
///     ...  has rows, as many as every other operand with `...`: row i of the outputs needs only row i of the inputs
///     #    only the type and the shape are read
///     -    anything else; if other operands have rows (`...`), an output with - is the sum over these rows
///     oi   like -, and names the innermost dimensions, as in einsum: an index of `o` in an output needs only this
///          index of `o` in the inputs. Outputs are sums over letters that only inputs have. The patterns ... and - can
///          have letters, too
///     +o   like o, for the last input, which is added to output 0
///
/// The last pattern of each side, without its letters, also applies to all operands after it. In an op with a function
/// `divide` (division.hpp), a letter need not hold for single indices, only for ranges of indices, such as the columns
/// of one attention head. Without `layouts`, every operand has `-`. In an op that draws random numbers, every pattern
/// but `#` means `-`, because the numbers depend on positions in the full tensors.
struct layout_rule {
  /// For each pattern, the operands of one side that have it: bit k is operand k.
  struct side {
    static constexpr int maximum_named = 4; // only the first `maximum_named` operands can name dimensions

    unsigned elements = 0;       // `*`
    unsigned rows = 0;           // `...`
    unsigned unread = 0;         // `#`
    char inner[maximum_named]{}; // per operand: the name of the innermost dimension; 0: none
    char outer[maximum_named]{}; // per operand: the name of the second-innermost dimension; 0: none
    int added = -1;              // the input with `+`; -1: none
    /// The name of the innermost dimension of operand k; 0: none.
    constexpr char inner_of(int k) const { return k < maximum_named ? inner[k] : '\0'; }
    /// The name of the second-innermost dimension of operand k; 0: none.
    constexpr char outer_of(int k) const { return k < maximum_named ? outer[k] : '\0'; }
  };
  side inputs;       // of the inputs
  side outputs;      // of the outputs
  bool valid = true; // whether the parsed text is a valid rule

  /// This rule with the pattern - in place of every pattern but #, for an op that needs full tensors.
  constexpr layout_rule of_full_tensors() const {
    layout_rule full;
    full.inputs.unread = inputs.unread;
    return full;
  }

  /// Whether a call can work on shards of the operands with the pattern `*`.
  constexpr bool by_elements() const { return outputs.elements != 0; }
};

namespace detail {

/// Removes up to two letters at the end of an operand's pattern, and a `+` before them, and records them in `side`.
/// Does nothing for an operand that cannot name dimensions (`maximum_named`). `may_be_added`: whether the operand is
/// the last input, the only one that can have a `+`.
constexpr void take_names(layout_rule::side& side, int operand, std::string_view& pattern, bool may_be_added) {
  auto const take_name = [&](char& name) {
    if (pattern.empty() || pattern.back() < 'a' || pattern.back() > 'z') return;
    name = pattern.back();
    pattern.remove_suffix(1);
  };
  if (operand >= layout_rule::side::maximum_named) return;
  take_name(side.inner[operand]), take_name(side.outer[operand]);
  if (!may_be_added || pattern != "+" || side.inner[operand] == 0) return; // a `+` that stays makes the rule invalid
  side.added = operand;
  pattern.remove_suffix(1);
}

} // namespace detail

/// The rule that an op's `layouts` describes; `valid` is false if `text` does not describe a rule.
constexpr layout_rule parse_layouts(std::string_view text) {
  layout_rule rule;
  auto* side = &rule.inputs;
  bool has_outputs = false;
  int operand = 0;
  for (std::size_t i = 0; i <= text.size() && rule.valid;) {
    while (i < text.size() && text[i] == ' ') ++i;
    std::size_t end = i;
    while (end < text.size() && text[end] != ' ' && text[end] != ',') ++end;
    auto pattern = text.substr(i, end - i);
    while (end < text.size() && text[end] == ' ') ++end;
    bool const is_last = end == text.size() || text[end] != ',';
    detail::take_names(*side, operand, pattern, is_last && !has_outputs);
    unsigned const operands = is_last ? ~0u << operand : 1u << operand;
    if (pattern == "*") side->elements |= operands;
    else if (pattern == "...") side->rows |= operands;
    else if (pattern == "#") side->unread |= operands;
    else rule.valid = pattern == "-" || (pattern.empty() && side->inner_of(operand) != 0);
    ++operand;
    i = end + 1;
    if (end == text.size() || !is_last) continue;
    rule.valid = rule.valid && !has_outputs && text.substr(end, 2) == "->";
    has_outputs = true;
    side = &rule.outputs;
    operand = 0;
    i = end + 2;
  }
  bool const all_or_none = rule.outputs.elements == 0 || rule.outputs.elements == ~0u;
  rule.valid = rule.valid && has_outputs && all_or_none && rule.outputs.unread == 0;
  return rule;
}

} // namespace constrain
