#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/policy/checkpoint.hpp"
#include "constrain/policy/device.hpp"
#include "constrain/policy/fusion.hpp"
#include "constrain/policy/optimizer/in_backward.hpp"
#include "constrain/policy/optimizer/quantized.hpp"
#include "constrain/policy/optimizer/states_in.hpp"
#include "constrain/train/cheapest.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The result of `advise`.
struct advice {
  std::vector<strategy_estimate> table; // estimates of the strategies that were considered
  std::vector<std::string> names;       // for each strategy: the names of its policies
  int index = -1;                       // index of the fastest strategy that fits; -1: none fits
  bytes missing;                        // excess of the smallest plan over the memory; 0 if a strategy fits
  std::string text;                     // the table, and the choice or, if none fits, the missing bytes and advice
};

namespace detail {

/// A list of policy sets.
template <class...> struct set_list {};

/// Two lists of policy sets, one after the other.
template <class... first, class... second>
set_list<first..., second...> operator+(set_list<first...>, set_list<second...>);

/// Strategies for one device and precision: each of the optimizers, with and without recomputation of the layers of
/// repeats.
template <class device, class precision, class... optimizers>
using with_and_without_recomputation = set_list<policies<device, precision, optimizers>...,
                                                policies<device, precision, optimizers, checkpoint::every<1>>...>;

/// The AdamW that needs the least memory: all states in 8 bits, and no gradient kept after its update.
using smallest_adamw = optimizer::in_backward<optimizer::quantized<optimizer::adamw, optimizer::everything>>;

/// The strategies that `advise` considers for a device and a precision.
template <class device, class precision>
using advised = decltype(
    with_and_without_recomputation<device, precision, optimizer::adamw,
                                   optimizer::states_in<dtype::bf16, optimizer::adamw>, optimizer::adamw_8bit,
                                   optimizer::in_backward<optimizer::adamw_8bit>, smallest_adamw>{} +
    set_list<policies<device, precision, optimizer::states_in<dtype::bf16, optimizer::adamw>, checkpoint::keep<>>,
             policies<device, precision, smallest_adamw, checkpoint::keep<>>,
             policies<device, precision, smallest_adamw, checkpoint::keep<>, fusion::all>>{});

/// Whether a type is a policy of the device slot.
template <class type> concept is_device = requires { requires std::is_same_v<typename type::slot, slot_of::device>; };

/// Appends the estimates and names of the strategies `sets` to `a`. `memory`: as in `advise`. Compile-time error if a
/// rate that a strategy needs is missing or out of range.
template <class task, class... sets> void append_estimates(advice& a, set_list<sets...>, bytes memory) {
  (with_rates_of<typename sets::target, estimated<task, sets>::is_rated>(0), ...);
  (a.table.push_back(estimated<task, sets>::within(memory)), ...);
  (a.names.push_back(sets::name()), ...);
}

/// Throws `error` if `memory` is below 1 byte.
[[gnu::cold]] void check_memory(bytes memory);

/// Chooses the fastest strategy of `a.table` that fits, and sets `a.index`, `a.missing` and `a.text`. `memory`: as in
/// `advise`. `sequences`, `evaluation_sequences`: the number of sequences in a micro-batch of a step and of `evaluate`.
/// `largest`: bytes of the largest parameter and its gradient.
[[gnu::cold]] void finish_advice(advice& a, bytes memory, std::int64_t sequences, std::int64_t evaluation_sequences,
                                 bytes largest);

/// Bytes of a task's largest parameter and its gradient, both in fp32. A parameter that is stacked over the layers of a
/// repeat counts as one layer.
template <class task> constexpr bytes largest_parameter_and_gradient() {
  constexpr program built = task::build(entry::step, dtype::f32);
  std::int64_t maximum = 0;
  for (auto const& info : built.values)
    if (is_parameter(info.role) && info.shape.elements() > maximum) maximum = info.shape.elements();
  return bytes(8 * maximum);
}

} // namespace detail

/// Compares strategies on one device: combinations of a precision (fp32, bf16, pure_bf16), a variant of AdamW,
/// recomputation and fusion. Finds the strategies whose trainers fit into `memory` bytes, the memory of the device, and
/// the fastest of these by the cost model. If none fits, the text states how many bytes are missing and what to do.
/// Throws `error` if `memory` is below 1 byte. The plans are made at compile time; no kernel is compiled. Compile-time
/// error if the task's program is refused with one of the strategies, or if a strategy needs a rate that is unknown (0)
/// or out of range (device/rates.hpp).
///
///     std::puts(ct::advise<task>(ct::device::cpu{}, ct::gibibytes(16)).text.c_str());
template <class task, class device> advice advise(device, bytes memory) {
  static_assert(detail::is_device<device>,
                "advise: the first argument must be a device policy; write ct::device::cpu{}, for example");
  static_assert(is_task<task>, "advise: the template argument must be a ct::task; write ct::advise<ct::task<model, "
                               "objective, ct::micro_batch{.sequences = 8}>>(ct::device::cpu{}, ct::gibibytes(16))");
  advice a;
  if constexpr (detail::is_device<device> && is_task<task>) {
    detail::check_memory(memory);
    detail::append_estimates<task>(a, detail::advised<device, precision::fp32>{}, memory);
    detail::append_estimates<task>(a, detail::advised<device, precision::bf16>{}, memory);
    detail::append_estimates<task>(a, detail::advised<device, precision::pure_bf16>{}, memory);
    detail::finish_advice(a, memory, task::sequences, detail::evaluation_sequences<task>,
                          detail::largest_parameter_and_gradient<task>());
  }
  return a;
}

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/advise.ipp"
#endif
