#pragma once

#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// An operation, as a program's nodes know it:
///
///     static constexpr char const* name = "rms_norm";
///     static constexpr inferred infer(operand_types const& inputs, attributes const&); // the shape rule
///
/// and it may have
///
///     static constexpr cost cost_of(operand_types const& inputs, operand_types const& outputs, attributes const&);
///     static constexpr void gradient(backward&);        // emits backward nodes; without it there is no gradient
///     static constexpr unsigned in_place = 1u << 0;     // bit i: output 0 may be written over input i
///     static constexpr unsigned accumulating = 1u << 0; // bit j: the kernel can add to output j
///     static constexpr unsigned workspace = 1u << 1;    // bit j: output j is scratch
///     static constexpr bool only_in_training = true;    // the identity in evaluation
///
/// Its kernels are specialisations of `kernel<op, device>` (device/kernel.hpp).
template <class type> concept is_op = requires(operand_types const& types, attributes const& options) {
  requires std::is_convertible_v<decltype(type::name), char const*>;
  requires std::is_same_v<decltype(type::infer(types, options)), inferred>;
};

/// Whether an op says how its gradient is computed.
template <class type> concept has_gradient_rule = is_op<type> && requires(backward& b) { type::gradient(b); };

} // namespace constrain
