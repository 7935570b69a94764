#pragma once

#include "constrain/device/kernel.hpp"
#include "constrain/program/op_info.hpp"
#include "constrain/program/plan.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

/// An operand with its address in the current iteration. A value that is stacked over loops has one instance per
/// iteration; a call outside of these loops works on all instances together.
struct bound_operand {
  std::byte* data = nullptr;       // address of the first element
  shape const* shape_of = nullptr; // shape of one instance
  std::int64_t count = 0;          // elements that the call works on: of one instance, or of all
};

/// A function that calls a kernel with type-erased operands: the inputs, then the outputs.
using launcher = void (*)(call const&, bound_operand const*);

namespace detail {

/// The tensor type of an operand; inputs are const.
template <dtype type, bool is_input>
using operand_of = tensor<std::conditional_t<is_input, storage<type> const, storage<type>>>;

/// Whether kernel<op, device>::run accepts these operands.
template <class op, class device, class... operands>
concept has_kernel = requires(call_of<op> const& c, operands... o) {
  kernel<op, device>::run(c, o...);
};

/// The compile-time error for an op without a kernel; the compiler prints the op, the device and the operand types.
template <class op, class device, class... operands> struct kernel_is_there {
  static constexpr bool value = has_kernel<op, device, operands...>;
  static_assert(value,
                "run: this op has no kernel for this device and these operands; include the op's cpu.hpp (cuda.cuh "
                "for a GPU) or specialise ct::kernel<op, device> with `static void run(ct::call const&, operands...)`");
};

/// Calls the kernel of `op` with typed operands. One instantiation per op, device and dtypes; all nodes with the same
/// op and dtypes share it.
template <op_label const* op, class device, int inputs, class indices, dtype... types> struct typed_call;
template <op_label const* op, class device, int inputs, std::size_t... i, dtype... types>
struct typed_call<op, device, inputs, std::index_sequence<i...>, types...> {
  static constexpr bool has = has_kernel<op_type<op>, device, operand_of<types, (static_cast<int>(i) < inputs)>...>;
  using required = kernel_is_there<op_type<op>, device, operand_of<types, (static_cast<int>(i) < inputs)>...>;

  static void launch(call const& c, bound_operand const* operands) {
    call_of<op_type<op>> const& with_options = c;
    kernel<op_type<op>, device>::run(with_options, operand_of<types, (static_cast<int>(i) < inputs)>{
                                                       reinterpret_cast<storage<types>*>(operands[i].data),
                                                       operands[i].shape_of, operands[i].count}...);
  }
};

/// The `typed_call` of step `step_index` of the plan `holder::value`.
template <class holder, class device, int step_index, class indices> struct call_of_step;
template <class holder, class device, int step_index, std::size_t... i>
struct call_of_step<holder, device, step_index, std::index_sequence<i...>> {
  using type =
      typed_call<holder::value.steps[step_index].op, device, holder::value.steps[step_index].inputs,
                 std::index_sequence<i...>,
                 holder::value.operands[holder::value.steps[step_index].first_operand + static_cast<int>(i)].type...>;
};
template <class holder, class device, int step_index>
using typed_call_of =
    typename call_of_step<holder, device, step_index,
                          std::make_index_sequence<static_cast<std::size_t>(
                              holder::value.steps[step_index].inputs + holder::value.steps[step_index].outputs)>>::type;

/// Whether a step has a kernel or needs none (the begin or end of a loop).
template <class holder, class device, int step_index> constexpr bool has_launcher() {
  if constexpr (holder::value.steps[step_index].kind != node_kind::call) return true;
  else return typed_call_of<holder, device, step_index>::has;
}

/// The launcher of a step; null if the step needs no kernel or its kernel is missing.
template <class holder, class device, int step_index> constexpr launcher launcher_of() {
  if constexpr (holder::value.steps[step_index].kind != node_kind::call) return nullptr;
  else if constexpr (typed_call_of<holder, device, step_index>::has)
    return &typed_call_of<holder, device, step_index>::launch;
  else return nullptr;
}

/// Index of the first step whose kernel is missing; -1: no such step.
template <class holder, class device, std::size_t... i> constexpr int first_missing(std::index_sequence<i...>) {
  bool const has[] = {has_launcher<holder, device, static_cast<int>(i)>()..., true};
  for (std::size_t k = 0; k < sizeof...(i); ++k)
    if (!has[k]) return static_cast<int>(k);
  return -1;
}

/// The launchers of all steps.
template <class holder, class device, std::size_t... i> constexpr auto make_launchers(std::index_sequence<i...>) {
  return std::array<launcher, sizeof...(i)>{launcher_of<holder, device, static_cast<int>(i)>()...};
}

} // namespace detail

/// The launcher of every step of the plan `holder::value`; null for the begin or end of a loop, and for a missing
/// kernel.
template <class holder, class device>
inline constexpr auto launchers = detail::make_launchers<holder, device>(
    std::make_index_sequence<static_cast<std::size_t>(holder::value.steps_size)>{});

/// The compile-time error for a plan with missing kernels; it names the first op that lacks one.
template <class holder, class device,
          int missing = detail::first_missing<holder, device>(
              std::make_index_sequence<static_cast<std::size_t>(holder::value.steps_size)>{})>
struct plan_has_kernels {
  static_assert(sizeof(typename detail::typed_call_of<holder, device, missing>::required) > 0);
};
template <class holder, class device> struct plan_has_kernels<holder, device, -1> {};

} // namespace constrain
