#pragma once

#include "constrain/op/cross_entropy/cross_entropy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// One class per sequence: logits [sequences, classes], labels [sequences].
struct classification {
  constexpr value operator()(value logits, value labels) const { return cross_entropy(logits, labels); }
};

} // namespace constrain
