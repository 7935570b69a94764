#pragma once

#include "constrain/program/backward.hpp"

#include <type_traits>

namespace constrain::op {

/// The most fields that an optimizer's state may have.
inline constexpr int maximum_state_fields = 4;

/// How many reals an element-wise optimizer keeps per weight; its state is stored field by field.
template <class optimizer> constexpr int state_fields() {
  using state = typename optimizer::template state<float>;
  if constexpr (std::is_empty_v<state>) return 0;
  else {
    static_assert(std::is_trivially_copyable_v<state> && sizeof(state) % sizeof(float) == 0,
                  "an optimizer's `template <class real> struct state` holds fields of type real alone");
    static_assert(sizeof(state) <= 4 * sizeof(float), "an optimizer's state holds at most four reals a weight; drop some");
    return static_cast<int>(sizeof(state) / sizeof(float));
  }
}

/// weight, states = optimizer::update(weight, gradient * scale, states): inputs gradient, clip [norm, scale], the
/// optimizer's numbers; outputs, read and written, the weight and its state fields. Attribute 0: whether it decays.
template <class optimizer> struct update {
  static constexpr char const* name = "update";
  static constexpr unsigned accumulating = ~0u;
  static constexpr bool reads_shards = true;

  static constexpr inferred infer(operand_types const& in, attributes const&) {
    auto result = inferred::one(in[0].type, in[0].shape);
    for (int i = 0; i < state_fields<optimizer>(); ++i) result = result.and_also(in[0].type, in[0].shape);
    return result;
  }
};

} // namespace constrain::op
