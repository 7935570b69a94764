#pragma once

#include "constrain/base/concat.hpp"
#include "constrain/policy/device.hpp"
#include "constrain/policy/optimizer/in_backward.hpp"
#include "constrain/policy/optimizer/quantized.hpp"
#include "constrain/policy/optimizer/states_in.hpp"
#include "constrain/train/cheapest.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The result of `advise`.
struct advice {
  std::vector<strategy_estimate> table; // estimates of the strategies that were considered
  std::vector<std::string> names;       // for each strategy: the names of its policies
  int index = -1;                       // index of the fastest strategy that fits; -1: none fits
  bytes missing;                        // excess of the smallest plan over the memory; 0 if a strategy fits
  std::string text;                     // the table, then the choice or, if none fits, the missing bytes and what to do
};

namespace detail {

/// A list of policy sets.
template <class...> struct set_list {};

/// The strategies that `advise` considers for one precision: each optimizer, with and without full recomputation.
template <class device, class precision, class... optimizers>
using with_and_without_recomputation = set_list<policies<device, precision, optimizers>...,
                                                policies<device, precision, optimizers, checkpoint::every<1>>...>;

/// The strategies that `advise` considers for a device, with optimizers for which the device has kernels.
template <class device, class precision> struct advised {
  using list = with_and_without_recomputation<device, precision, optimizer::adamw,
                                              optimizer::states_in<dtype::bf16, optimizer::adamw>>;
};
template <class precision> struct advised<device::cpu, precision> {
  using list = with_and_without_recomputation<device::cpu, precision, optimizer::adamw, optimizer::adamw_8bit,
                                              optimizer::in_backward<optimizer::adamw_8bit>>;
};

template <class task, class... sets> void append_estimates(advice& a, set_list<sets...>, bytes memory) {
  (with_rates_of<typename sets::target, estimated<task, sets>::is_rated>(0), ...);
  (a.table.push_back(estimated<task, sets>::within(memory)), ...);
  (a.names.push_back(sets::name()), ...);
}

/// Chooses the fastest strategy that fits, and writes the text. `sequences`: the number of sequences in a micro-batch.
/// `largest`: bytes of the largest parameter and its gradient.
[[gnu::cold]] void finish_advice(advice& a, bytes memory, int sequences, bytes largest);

/// Bytes of a task's largest parameter and its gradient in fp32. Only one layer of a repeat counts.
template <class task> constexpr bytes largest_parameter() {
  constexpr program built = task::build(entry::step, dtype::f32);
  std::int64_t most = 0;
  for (auto const& info : built.values)
    if (is_parameter(info.role) && info.shape.elements() > most) most = info.shape.elements();
  return bytes(8 * most);
}

} // namespace detail

/// Compares combinations of a precision, an optimizer and recomputation. Finds those whose step fits into `memory`
/// bytes of one device, and the fastest of them by the cost model. If none fits, the text states how many bytes are
/// missing and what to do. The plans are made at compile time; no kernel is compiled. A strategy that needs a rate of 0
/// (device/rates.hpp) is a compile-time error.
///
///     std::puts(ct::advise<task>(ct::device::cpu{}, ct::gibibytes(16)).text.c_str());
template <class task, class device> advice advise(device, bytes memory) {
  advice a;
  detail::append_estimates<task>(a, typename detail::advised<device, precision::fp32>::list{}, memory);
  detail::append_estimates<task>(a, typename detail::advised<device, precision::bf16>::list{}, memory);
  detail::append_estimates<task>(a, typename detail::advised<device, precision::pure_bf16>::list{}, memory);
  detail::finish_advice(a, memory, task::sequences, detail::largest_parameter<task>());
  return a;
}

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/advise.ipp"
#endif
