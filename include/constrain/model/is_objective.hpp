#pragma once

#include "constrain/model/is_model.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// An objective: a default-constructible type with a constexpr function from logits [..., classes] and labels [...]
/// (i32) to the loss, a scalar:
///
///     constexpr ct::value operator()(ct::value logits, ct::value labels) const;
///
/// An objective with other kinds of labels lists them in the order of the function's parameters, in a static member or
/// in a static function `labels` that returns a list:
///
///     static constexpr ct::port_spec labels[] = {
///         {.name = "targets", .type = ct::port_type::real, .each = ct::per::logit}};
///
/// If the first labels are one integer per row of logits, they are classes, and `evaluate` counts correct predictions.
/// Exception: they are not classes if an op of the loss accepts another number of label values than there are logits in
/// a row, such as a lookup in a table with more rows, or the cross-entropy of a head of the objective.
///
/// The library's losses divide by the number of valid labels in the first label array (`ct::inverse_label_count`). An
/// integer label is valid unless it is `ignored_label`; a real label is always valid. An op of the loss that reads
/// labels must add nothing for a row with an ignored label, because `evaluate` and tail::pad pad batches with such
/// rows. tail::pad is refused if a label is real; if the first labels cannot be ignored, because an op uses them as
/// indices; or if a path from the logits, or from other labels used as indices, to the loss does not pass through an op
/// that also reads integer labels that can be ignored. In these cases, `evaluate` repeats a sample and subtracts its
/// share: the result is exact if the loss is a sum over rows, divided by the number of valid labels, plus terms that
/// depend on no row. `evaluate` skips micro-batches without a valid label: if a row whose first label is ignored adds
/// to the loss, for example with real targets, the result depends on the size of the micro-batch.
///
/// An objective whose labels are the next tokens has the following member. If the model's only input is tokens, and the
/// only labels are one integer per token, the trainer then accepts `ct::labels::shift`, and refuses valid labels that
/// all equal the inputs, if two adjacent tokens with valid labels differ:
///
///     static constexpr bool labels_are_next_tokens = true;
///
/// An objective whose labels are not the next tokens, such as `masked_lm` or `classification`, has the following member
/// (a derived class inherits it). Training and evaluation on a corpus, which labels each token with the next one, are
/// then compile-time errors. An objective without the member accepts a corpus if the model's only input is tokens, and
/// the only labels are one integer per token:
///
///     static constexpr bool labels_are_next_tokens = false;
///
/// An objective whose first labels are one class per row of logits may list metrics (model/metric/metrics.hpp):
///
///     using metrics = ct::metrics<ct::macro_f1, ct::binary_f1>;
///
/// A type that lists inputs is a model, not an objective.
template <class type>
concept is_objective = std::is_default_constructible_v<type> && !detail::lists_inputs<type> &&
                       detail::takes_values<type, 1 + labels_of<type>().size()>;

} // namespace constrain
