#pragma once

#include "constrain/device/kernel.hpp"
#include "constrain/device/kernel_needs.hpp"
#include "constrain/program/diagnosis.hpp"
#include "constrain/program/node.hpp"
#include "constrain/program/op_info.hpp"
#include "constrain/program/plan.hpp"

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

/// An operand with its address in the current iteration. A value that is stacked over loops has one instance per
/// iteration. If such a loop does not enclose the call, the operand holds the instances of all iterations of this loop.
struct bound_operand {
  std::byte* data = nullptr;       // address of the first element
  shape const* shape_of = nullptr; // shape of one instance
  std::int64_t count = 0;          // elements of all instances that the call works on
  std::int64_t row_stride = 0;     // elements from one row to the next; 0: contiguous
};

/// A function that takes type-erased operands, the inputs and then the outputs, and calls a kernel with them as typed
/// tensors.
using launcher = void (*)(call const&, bound_operand const*);

namespace detail {

/// The dtypes of a call's inputs, and of its outputs. `indices`: their indices.
template <dtype... types> struct inputs { using indices = std::make_index_sequence<sizeof...(types)>; };
template <dtype... types> struct outputs { using indices = std::make_index_sequence<sizeof...(types)>; };

/// The tensor type of an input or output.
template <dtype type> using input_of = tensor<storage<type> const>;
template <dtype type> using output_of = tensor<storage<type>>;

/// The operand as a tensor with elements of type T.
template <class T> tensor<T> tensor_of(bound_operand const& o) {
  return {reinterpret_cast<T*>(o.data), o.shape_of, o.count, o.row_stride};
}

/// Whether kernel<op, device>::run accepts these operands.
template <class op, class device, class... operands>
concept takes_operands = requires(call_of<op> const& c, operands... o) {
  kernel<op, device>::run(c, o...);
};

/// The compile-time error for a call without a kernel. Compilers print the op, the device, the types of the operands,
/// and the diagnosis, with the source line in the model if it is known. (clang prints a `why` only where the `why` is
/// itself a template argument.)
template <class op, class device, class... operands> struct kernel_exists {
  template <why, diagnosis d> struct refused {
    static_assert(
        d.ok(),
        "run: this op has no kernel for this device and these operands; choose a policy, an optimizer or a "
        "device that does not need this op, or specialize ct::kernel<op, device> with `static void run(ct::call "
        "const&, operands...)` before the trainer");
  };
};

/// The compile-time error for a kernel with `needs_of` that is defined after the plan was made. The plan lacks the
/// kernel's needs.
template <class op, class device, bool is_planned> struct needs_are_planned {
  static_assert(is_planned,
                "run: this kernel has `needs_of`, but is defined after the first use of a trainer that calls "
                "it; specialize ct::kernel<op, device> before the trainer");
};

/// Calls the kernel of `op` with typed operands. `has_kernel`: whether the kernel accepts the operands. `required`: the
/// error if it does not. `launch`: the launcher. For each device, all nodes with the same op and dtypes share one
/// instantiation.
template <class op, class device, class inputs, class outputs, class input_indices = typename inputs::indices,
          class output_indices = typename outputs::indices>
struct typed_call;
template <class op, class device, dtype... in, dtype... out, std::size_t... i, std::size_t... o>
struct typed_call<op, device, inputs<in...>, outputs<out...>, std::index_sequence<i...>, std::index_sequence<o...>> {
  static constexpr bool has_kernel = takes_operands<op, device, input_of<in>..., output_of<out>...>;
  using required = kernel_exists<op, device, input_of<in>..., output_of<out>...>;

  static void launch(call const&, bound_operand const*);
};

// Not defined in the class: it would be inline, and g++ would compile it even where the companion library contains it.
template <class op, class device, dtype... in, dtype... out, std::size_t... i, std::size_t... o>
void typed_call<op, device, inputs<in...>, outputs<out...>, std::index_sequence<i...>,
                std::index_sequence<o...>>::launch(call const& c, bound_operand const* operands) {
  constexpr bool is_planned =
      needs_rule_of<op, device> != nullptr || !names_needs_of<kernel<op, device>, options_of<op>>();
  static_assert(sizeof(needs_are_planned<op, device, is_planned>) > 0);
  call_of<op> const& with_options = c;
  kernel<op, device>::run(with_options, tensor_of<storage<in> const>(operands[i])...,
                          tensor_of<storage<out>>(operands[sizeof...(in) + o])...);
}

/// The `typed_call` of step `step_index` of the plan `planned_entry::value`. `first`: the index of its first operand.
template <class planned_entry, class device, int step_index, int first, class in, class out> struct call_of_step;
template <class planned_entry, class device, int step_index, int first, std::size_t... in, std::size_t... out>
struct call_of_step<planned_entry, device, step_index, first, std::index_sequence<in...>, std::index_sequence<out...>> {
  // The dtypes are not computed by a function: nvcc would need 0.5 GB more memory for a test with two trainers.
  using type =
      typed_call<op_type<planned_entry::value.steps[step_index].op>, device,
                 inputs<planned_entry::value.operands[first + static_cast<int>(in)].type...>,
                 outputs<planned_entry::value.operands[first + static_cast<int>(sizeof...(in) + out)].type...>>;
};
template <class planned_entry, class device, int step_index>
using typed_call_of = typename call_of_step<
    planned_entry, device, step_index, planned_entry::value.steps[step_index].first_operand,
    std::make_index_sequence<static_cast<std::size_t>(planned_entry::value.steps[step_index].inputs)>,
    std::make_index_sequence<static_cast<std::size_t>(planned_entry::value.steps[step_index].outputs)>>::type;

/// The distinct calls of a plan: calls to one op with operands of the same dtypes share one launcher.
template <int steps> struct distinct_calls {
  int of_step[steps == 0 ? 1 : steps]{}; // index of each step's distinct call; -1: begin or end step of a loop
  int first[steps == 0 ? 1 : steps]{};   // index of the first step that makes each distinct call
  int count = 0;                         // number of distinct calls
};

/// Whether two calls of a plan have the same op and dtypes.
template <class plan> constexpr bool same_call(plan const& p, step const& a, step const& b) {
  if (a.op->identity != b.op->identity || a.inputs != b.inputs || a.outputs != b.outputs) return false;
  for (int i = 0; i < a.inputs + a.outputs; ++i)
    if (p.operands[a.first_operand + i].type != p.operands[b.first_operand + i].type) return false;
  return true;
}

/// Finds the distinct calls of the plan `p`.
template <int steps, class plan> constexpr distinct_calls<steps> find_calls(plan const& p) {
  distinct_calls<steps> out;
  for (int i = 0; i < steps; ++i) {
    out.of_step[i] = -1;
    if (p.steps[i].kind != node_kind::call) continue;
    int call = 0;
    while (call < out.count && !same_call(p, p.steps[out.first[call]], p.steps[i])) ++call;
    if (call == out.count) out.first[out.count++] = i;
    out.of_step[i] = call;
  }
  return out;
}

/// The distinct calls of the plan `planned_entry::value`, and the sequence of their indices.
template <class planned_entry>
inline constexpr auto calls_of = find_calls<planned_entry::value.steps_size>(planned_entry::value);
template <class planned_entry>
using call_indices = std::make_index_sequence<static_cast<std::size_t>(calls_of<planned_entry>.count)>;

/// The typed call with index `call` among the distinct calls of a plan.
template <class planned_entry, class device, std::size_t call>
using distinct_call = typed_call_of<planned_entry, device, calls_of<planned_entry>.first[call]>;

/// The launcher of a typed call; null if the kernel is missing.
template <class typed_call> constexpr launcher launcher_of() {
  if constexpr (typed_call::has_kernel) return &typed_call::launch;
  else return nullptr;
}

/// The index of the first step whose kernel is missing; -1: no kernel is missing.
template <class planned_entry, class device, std::size_t... call>
constexpr int first_missing(std::index_sequence<call...>) {
  bool const has_kernel[] = {distinct_call<planned_entry, device, call>::has_kernel..., true};
  for (std::size_t k = 0; k < sizeof...(call); ++k)
    if (!has_kernel[k]) return calls_of<planned_entry>.first[k];
  return -1;
}

/// The launchers of all steps.
template <class planned_entry, class device, std::size_t... call>
constexpr auto make_launchers(std::index_sequence<call...>) {
  launcher const by_call[] = {launcher_of<distinct_call<planned_entry, device, call>>()..., nullptr};
  std::array<launcher, static_cast<std::size_t>(planned_entry::value.steps_size)> by_step{};
  for (std::size_t i = 0; i < by_step.size(); ++i)
    if (int const index = calls_of<planned_entry>.of_step[i]; index >= 0) by_step[i] = by_call[index];
  return by_step;
}

/// The diagnosis for step `index`, which has no kernel. Source lines are known only if the entry has the plan's
/// program, `planned_entry::final`.
template <class planned_entry, int index> constexpr diagnosis missing_kernel_at() {
  if constexpr (requires { planned_entry::final; }) {
    node const& n = planned_entry::final.nodes[planned_entry::value.steps[index].source];
    return {why::refused, n.line, n.called_from};
  } else return {why::refused};
}

} // namespace detail

/// The launcher of every step of the plan `planned_entry::value`; null for a loop's begin and end steps, and for a
/// missing kernel.
template <class planned_entry, class device>
inline constexpr auto launchers = detail::make_launchers<planned_entry, device>(detail::call_indices<planned_entry>{});

namespace detail {

/// The index of the first step of the plan `planned_entry::value` whose kernel is missing; -1: no kernel is missing.
template <class planned_entry, class device>
inline constexpr int missing_step = first_missing<planned_entry, device>(call_indices<planned_entry>{});

/// The error for step `missing` of a plan.
template <class planned_entry, class device, int missing>
using missing_kernel = typename typed_call_of<planned_entry, device, missing>::required::template refused<
    why::refused, missing_kernel_at<planned_entry, missing>()>;

/// Whether the entry names the plan of another entry as `before` (pass/planned.hpp) and that plan lacks kernels. In a
/// trainer, all entries except `step` name `step`; in an inference object, all except `evaluate` name `evaluate`.
template <class planned_entry, class device> constexpr bool plan_before_lacks_kernels() {
  // `planned_entry::before` may be void, which has no members.
  if constexpr (requires { typename planned_entry::before::before; })
    return missing_step<typename planned_entry::before, device> >= 0;
  else return false;
}

/// The error for step `missing` of a plan. If the plan `before` lacks kernels too, returns the error of that plan
/// instead, so that compilers print one error for both.
template <class planned_entry, class device, int missing> constexpr auto error_to_report() {
  if constexpr (plan_before_lacks_kernels<planned_entry, device>())
    return error_to_report<typename planned_entry::before, device,
                           missing_step<typename planned_entry::before, device>>();
  else return std::type_identity<missing_kernel<planned_entry, device, missing>>{};
}

} // namespace detail

/// The compile-time error for a plan with missing kernels: it reports the first call that lacks a kernel, in the plan
/// `before` if that plan lacks kernels too, otherwise in this plan.
template <class planned_entry, class device, int missing = detail::missing_step<planned_entry, device>>
struct plan_has_kernels {
  using error = typename decltype(detail::error_to_report<planned_entry, device, missing>())::type;
  static_assert(sizeof(error) > 0);
};
template <class planned_entry, class device> struct plan_has_kernels<planned_entry, device, -1> {};

} // namespace constrain
