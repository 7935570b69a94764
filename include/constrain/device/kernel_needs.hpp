#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/base/fixed_vector.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/program/node.hpp"
#include "constrain/program/shape.hpp"

#include <algorithm>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Type and extent of an operand of a kernel: a `tensor` without its data.
struct operand_extent {
  dtype type = dtype::f32; // of an element in memory
  constrain::shape shape;  // of one instance
  std::int64_t count = 0;  // elements of all instances in this operand

  /// The innermost extent of the shape, and the number of rows of this length in all instances.
  constexpr std::int64_t features() const { return shape.features(); }
  constexpr std::int64_t rows() const { return count / (features() == 0 ? 1 : features()); }
  /// Number of instances: the tensors of a stack.
  constexpr std::int64_t instances() const { return count / (shape.elements() == 0 ? 1 : shape.elements()); }
};

/// Types and extents of the inputs, or of the outputs, of one call.
using operand_extents = fixed_vector<operand_extent, std::max(node::maximum_inputs, node::maximum_outputs)>;

/// What a call of a kernel needs from its device besides its operands. A kernel with needs has a member function
///
///     static constexpr kernel_needs needs_of(operand_extents const& inputs, operand_extents const& outputs);
///
/// which may take the op's options as a third argument. The plan contains its results, so define the kernel before the
/// first use of a trainer that calls it. A kernel without `needs_of` has the defaults.
///
/// A CUDA kernel may merge consecutive calls, with operands of the same dtypes, into one multi-tensor launch. It then
/// collects the operands of each call at index `call::merged_before`, and launches if not `call::more_tensors_follow`.
struct kernel_needs {
  std::int64_t scratch = 0; // bytes of scratch memory (`call::scratch`); merged calls do not share theirs
  int launches = 1;         // CUDA kernels that a call, or all merged calls, launch; a GEMM of cuBLASLt counts as one
  int merged = 1;           // most calls that are merged; 1: none
};

namespace detail {

/// `needs_of` of a kernel, with type-erased options.
using needs_rule = kernel_needs (*)(operand_extents const& inputs, operand_extents const& outputs, attributes const&);

template <class op, class device>
constexpr kernel_needs needs_of_call(operand_extents const& in, operand_extents const& out, attributes const& a) {
  if constexpr (requires { kernel<op, device>::needs_of(in, out); }) return kernel<op, device>::needs_of(in, out);
  else return kernel<op, device>::needs_of(in, out, unpack<options_of<op>>(a));
}

template <class op, class device> constexpr needs_rule find_needs_rule() {
  if constexpr (requires { &kernel<op, device>::needs_of; }) return &needs_of_call<op, device>;
  else return nullptr;
}

/// The `needs_of` of a kernel; null if it has none, or if the kernel is not defined at the first use.
template <class op, class device> inline constexpr needs_rule needs_rule_of = find_needs_rule<op, device>();

} // namespace detail

} // namespace constrain
