#pragma once

#include "constrain/program/part_list.hpp"
#include "constrain/program/refusal.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// One call to an op, divided over ranks along the innermost dimension of its input 0: each rank has an equally long
/// range of every part. An op whose options depend on this dimension has a function `divide(options&, division&)`,
/// which changes the options to one rank's options, and returns whether that is possible.
struct division {
  int ranks = 1;       // ranks over which the call is divided
  int dimensions = 0;  // number of dimensions of input 0
  part_list parts;     // of the innermost dimension of the full input 0; `divide` sets them to the parts of output 0
  diagnosis failure{}; // set by `refuse`; if `divide` returns false without calling `refuse`, the call
                       // stays undivided

  /// Sets `failure` to the error `sentence` with these two numbers. Set `parts` before: they decide whether the next
  /// call prevents the division. The model is refused with this error, unless input 0 can be gathered for the call, as
  /// logits can, or another call prevents the division. Returns false, for `divide` to return.
  template <template <diagnosis> class sentence> constexpr bool refuse(std::int64_t expected, std::int64_t got) {
    failure = diagnosis_with<sentence>(0, 0, expected, got);
    return false;
  }
};

} // namespace constrain
