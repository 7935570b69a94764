#pragma once

#include "constrain/model/metric/f1.hpp"
#include "constrain/model/metric/metrics.hpp"
#include "constrain/op/focal_loss/focal_loss.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Classification with the focal loss (`focal_loss`, Lin et al. 2017) instead of the cross-entropy, from logits
/// [..., classes] and labels [...] (i32: the class, or `ignored_label`):
///
///     using objective = ct::focal_classification<ct::focal_loss_options{.gamma = 2}>; // 2 is the default
///
/// `perplexity` of `evaluate` is the exponential of this loss. Refused: token ids as logits, and a gamma that is
/// negative or not finite.
template <focal_loss_options options = focal_loss_options{}> struct focal_classification {
  using metrics = constrain::metrics<macro_f1, binary_f1>; // `evaluate` also reports loss, accuracy and perplexity
  static constexpr bool labels_are_next_tokens = false; // a corpus, which labels tokens with the next ones, is refused

  /// The loss, a scalar: the mean over the valid labels.
  constexpr value operator()(value logits, value labels) const { return focal_loss(logits, labels, options); }
};

} // namespace constrain
