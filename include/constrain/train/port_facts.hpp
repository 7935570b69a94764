#pragma once

#include "constrain/pass/pipeline.hpp"
#include "constrain/train/ignores_padding.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Facts that the host needs about a task's inputs, labels and logits. `passes`: the passes of an entry program that
/// has all three.
template <class task, class passes> struct port_facts {
  /// The first input. The host checks a corpus against the first input and the first label.
  static constexpr port first_input = passes::built.nth(port_kind::input, 0);
  /// The first label.
  static constexpr port first_label = passes::built.nth(port_kind::label, 0);
  static constexpr std::int64_t vocabulary = first_input.limit; // tokens are below this number; 0: not checked
  /// The shape of the logits of a micro-batch.
  static constexpr shape logits = passes::built.values[passes::built.result("logits").value].shape;
  static constexpr std::int64_t labels =
      passes::built.values[first_label.where.value].shape.elements(); // elements of the first label in a micro-batch
  /// Whether a data set may be padded: the first labels can be ignored, and padded rows add nothing to the loss.
  static constexpr bool pads = first_label.ignorable && detail::ignores_padding(passes::built);
  /// Whether the only input is one array of tokens. A corpus and `generate` provide no other inputs.
  static constexpr bool takes_tokens =
      passes::built.count(port_kind::input) == 1 && first_input.spec == port_spec{.name = first_input.spec.name};
  /// Whether the only labels are one integer per token. A corpus provides no other labels.
  static constexpr bool labels_tokens = passes::built.count(port_kind::label) == 1 &&
                                        first_label.spec.type == port_type::ids &&
                                        labels == passes::built.values[first_input.where.value].shape.elements();
  /// Whether the only labels are the next tokens of the only input.
  static constexpr bool next_tokens = [] {
    if constexpr (requires { task::objective::labels_are_next_tokens; })
      return task::objective::labels_are_next_tokens && takes_tokens && labels_tokens;
    else return false;
  }();
  /// Whether the labels can be the next tokens, which a corpus provides: true unless the objective rules this out.
  static constexpr bool accepts_next_tokens = [] {
    if constexpr (requires { task::objective::labels_are_next_tokens; })
      return bool(task::objective::labels_are_next_tokens);
    else return true;
  }();
};

} // namespace constrain
