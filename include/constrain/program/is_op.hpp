#pragma once

#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {
/// Whether `type::infer` accepts these arguments and returns an `inferred`.
template <class type, class... arguments> concept has_rule = requires(arguments const&... a) {
  requires std::is_same_v<decltype(type::infer(a...)), inferred>;
};
} // namespace detail

/// An op, which nodes of a program can call. Required members:
///
///     static constexpr char const* name = "rms_norm";
///     static constexpr inferred infer(operand_types const& inputs, options const&); // the shape rule
///
/// Optional members (without `cost_of`, the cost rule is `cost_by_operands`):
///
///     struct options { double epsilon = 1e-5; };        // constant options of a call (options.hpp); default: none
///     static constexpr cost cost_of(operand_types const& inputs, operand_types const& outputs, options const&);
///     static constexpr void gradient(backward&);        // the gradient rule; without it the op is not differentiable
///     static constexpr unsigned in_place = 1u << 0;     // bit i: output 0 may be written over input i
///     static constexpr unsigned accumulating = 1u << 0; // bit j: the kernel can add to output j ("(+)=" in docs)
///     static constexpr unsigned workspace = 1u << 1;    // bit j: output j is scratch
///     static constexpr unsigned row_sums = 1u << 0;     // bit j: output j is a sum over rows, and `options` is
///                                                       // `row_sum_options` (op/sum_parts/sum_parts.hpp)
///     static constexpr unsigned strided_inputs = 1u << 0;  // bit i: input i may be strided (tensor::row_stride)
///     static constexpr unsigned strided_outputs = 1u << 0; // bit j: output j may be strided
///     static constexpr char const* layouts = "..., - -> ..."; // which elements depend on which (layout.hpp)
///     static constexpr unsigned label_inputs = 1u << 1; // bit i: input i holds labels; see op_info
///     static constexpr bool only_in_training = true;    // outside training, readers of output 0 read input 0: dropout
///     using in_evaluation = other_op;                   // replaces the op outside training: same operands, no options
///     using written_as = other_op;                      // the op that a model calls and that a pass replaces with
///                                                       // this op (checkpoint::keep)
///     static constexpr unsigned gemm_operands = 0b11;   // bit i: input i is an operand of a GEMM; see op_info
///     static constexpr bool draws_random = true;        // each call in a model or a pass gets its own random key; in
///                                                       // `layouts`, every pattern but # means -
///     static constexpr void flat_form(builder&, node const&); // appends the nodes that replace a call whose input 0
///                                                       // is a shard; without it, a call that does not work
///                                                       // element by element gets the full tensor
///     static constexpr void divided_form(builder&, node const&); // appends the nodes that replace a call whose input
///                                                       // 0 is divided over a tensor group (pass/divide.hpp)
///     static constexpr void copying_form(builder&, node const&, ref copy); // appends a call that replaces the node
///                                                       // and also writes output 0, converted to the type of
///                                                       // `copy`, into `copy` (pass/keep_copies.hpp)
///     static constexpr bool divide(options&, division&); // changes the options to the options of one rank of a
///                                                       // tensor group; false: impossible (division.hpp)
///     static constexpr layout_change change{layout::partial, layout::replicated}; // layouts of input 0 and output 0
///                                                       // of a collective, or of an op that works only on shards
///     static constexpr bool exchanges = true;           // the kernel exchanges data between ranks
///     static constexpr bool same_data = true;           // the ranks that exchange data train on the same batches
///     static constexpr bool promotes_types = true;      // inputs of several floating-point types are cast to the
///                                                       // widest (torch.result_type)
///     static constexpr bool any_gradient_type = true;   // the gradient rule accepts gradients of any type; for other
///                                                       // ops, a gradient is first cast to the type of output 0
///     static constexpr bool guarded = true;             // changes nothing if `update_rule::scale` is 0
///     using with_bias_gradient = other_op;              // this op fused with linear_bias_gradient of output 0
///
/// `infer` and `cost_of` may omit the options, or take the stored `attributes const&` instead.
///
/// `infer` can refuse a call with an error sentence (refusal.hpp). The op's kernels are specializations of
/// `kernel<op, device>` (device/kernel.hpp).
template <class type> concept is_op = requires {
  requires std::is_convertible_v<decltype(type::name), char const*>;
  requires detail::has_rule<type, operand_types> || detail::has_rule<type, operand_types, attributes> ||
      detail::has_rule<type, operand_types, options_of<type>>;
};

/// An op with a gradient rule.
template <class type> concept has_gradient_rule = is_op<type> && requires(backward& b) { type::gradient(b); };

} // namespace constrain
