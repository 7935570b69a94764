#pragma once

#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

// Refusals that several ops share.

/// Of ops with a weight: it is not a matrix. The numbers are the dimensions, 2 and those it has.
template <diagnosis d> struct weight_is_no_matrix {
  static_assert(d.ok(), "a weight has `got` dimensions, but must be a matrix; give it the shape [out, in], or "
                        "[vocabulary, width] for an embedding");
};

/// Of ops on activations: a dimension is missing. The numbers are the dimensions, those needed and those there are.
template <diagnosis d> struct axis_is_not_there {
  static_assert(d.ok(), "the value has `got` dimensions where `expected` are needed; pass [sequences, tokens, "
                        "features]");
};

} // namespace constrain::op
