#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/base/fixed_vector.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/program/node.hpp"
#include "constrain/program/shape.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Type and extent of an operand of a kernel: a `tensor` without its data.
struct operand_extent {
  dtype type = dtype::f32; // type of the elements in memory
  constrain::shape shape;  // shape of one instance
  std::int64_t count = 0;  // elements of all instances in this operand
  std::int64_t stride = 0; // elements from one row to the next; 0: the operand is contiguous

  /// The innermost extent of the shape, and the number of rows of this length in all instances.
  constexpr std::int64_t features() const { return shape.features(); }
  constexpr std::int64_t rows() const { return count / (features() == 0 ? 1 : features()); }
  /// Elements from the first element of a row to the first element of the next row.
  constexpr std::int64_t row_stride() const { return stride == 0 ? features() : stride; }
  /// Number of instances (the tensors of a stack).
  constexpr std::int64_t instances() const { return count / (shape.elements() == 0 ? 1 : shape.elements()); }
};

/// Types and extents of the inputs, or of the outputs, of one call.
using operand_extents = fixed_vector<operand_extent, std::max(node::maximum_inputs, node::maximum_outputs)>;

/// The resources that a call to a kernel needs besides its operands. A kernel with needs has a member function
///
///     static constexpr kernel_needs needs_of(operand_extents const& inputs, operand_extents const& outputs);
///
/// which may take the op's options as a third argument. `needs_of` may be a template, or overloaded, if it can be
/// called with these arguments. The plan contains the results of `needs_of`, so define the kernel before the first use
/// of a trainer that calls the kernel. A kernel without `needs_of` has the defaults.
///
/// If a CUDA kernel allows it (`merged` above 1), the plan merges consecutive calls whose operands have the same
/// dtypes: one multi-tensor launch (or several: `launches`) computes all of them. The kernel then collects the operands
/// of each call at index `call::merged_before`, and launches unless `call::more_tensors_follow`. Merged calls run in
/// any order, or at the same time, so the plan merges only independent calls: no call reads or writes data that another
/// call writes, except as `merges_sums` says. If the launch has one operand for all merged calls, the kernel declares
/// this with `shared_inputs` or `merges_sums`.
struct kernel_needs {
  std::int64_t scratch = 0;   // bytes of `call::scratch`, separate for merged calls; at most 2^52 in total
  int launches = 1;           // CUDA kernels launched by a call, or by all merged calls; a cuBLASLt GEMM counts as one
  int merged = 1;             // maximum number of calls that are merged, including this one; 1: the call is not merged
  unsigned shared_inputs = 0; // bit k: calls are merged only if they have the same input k
  bool merges_sums = false;   // whether merged calls accumulate into one value, output 0: the first may overwrite it,
                              // and the others add to it (`call::add_to`); calls with a different output 0 are not
                              // merged
};

namespace detail {

/// Maximum bytes of scratch memory of a plan.
inline constexpr std::int64_t maximum_scratch = std::int64_t{1} << 52;

/// `needs_of` of a kernel, with type-erased options.
using needs_rule = kernel_needs (*)(operand_extents const& inputs, operand_extents const& outputs, attributes const&);

/// Whether `needs_of` of a kernel can be called without options, or with them.
template <class kernel> concept needs_without_options = requires(operand_extents const& e) {
  { kernel::needs_of(e, e) } -> std::convertible_to<kernel_needs>;
};
template <class kernel, class options>
concept needs_with_options = requires(operand_extents const& e, options const& o) {
  { kernel::needs_of(e, e, o) } -> std::convertible_to<kernel_needs>;
};

/// In a class that inherits from a kernel and from `needs_of_decoy`, the name `needs_of` is ambiguous if the kernel has
/// a member of this name: a function, a template, overloads, or anything else.
struct needs_of_decoy {
  int needs_of;
};
template <class kernel> struct inherits_needs_of : kernel, needs_of_decoy {};

/// Whether a kernel has a member with the name `needs_of`. In a final class, a template or an overload set that cannot
/// be called is not found.
template <class kernel, class options> constexpr bool names_needs_of() {
  if constexpr (needs_without_options<kernel> || needs_with_options<kernel, options>) return true;
  else if constexpr (std::is_final_v<kernel>) return requires {
      &kernel::needs_of;
    };
  else return !requires {
      &inherits_needs_of<kernel>::needs_of;
    };
}

/// Whether `needs_of` of a kernel can be called with operands only, or with operands and the options of `op`.
template <class op, class device>
inline constexpr bool can_call_needs_of =
    needs_without_options<kernel<op, device>> || needs_with_options<kernel<op, device>, options_of<op>>;

/// Calls `needs_of` of the kernel of `op` without options if that is possible, else with the unpacked options. If no
/// call is possible, asks for -1 bytes.
template <class op, class device>
constexpr kernel_needs needs_of_call(operand_extents const& in, operand_extents const& out, attributes const& a) {
  if constexpr (needs_without_options<kernel<op, device>>) return kernel<op, device>::needs_of(in, out);
  else if constexpr (can_call_needs_of<op, device>)
    return kernel<op, device>::needs_of(in, out, unpack<options_of<op>>(a));
  else return {.scratch = -1}; // the plan reports a compile-time error
}

// No concept may test a kernel that is not yet defined, because compilers would cache the answer.
template <class op, class device> constexpr needs_rule find_needs_rule() {
  if constexpr (requires { sizeof(kernel<op, device>); }) {
    if constexpr (names_needs_of<kernel<op, device>, options_of<op>>()) return &needs_of_call<op, device>;
    else return nullptr;
  } else return nullptr;
}

/// The `needs_of` of a kernel; null if the kernel has none, or is not defined at the first use of this constant.
template <class op, class device> inline constexpr needs_rule needs_rule_of = find_needs_rule<op, device>();

} // namespace detail

} // namespace constrain
