#pragma once

#include "constrain/device/kernel.hpp"
#include "constrain/program/op_info.hpp"
#include "constrain/program/plan.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

/// One operand with its address worked out.
struct bound_operand {
  std::byte* data = nullptr;
  shape const* shape_of = nullptr;
  std::int64_t count = 0;
};

using launcher = void (*)(call const&, bound_operand const*);

namespace detail {

/// Calls the kernel of `op` with typed operands. There is one per op and dtypes, however many nodes use it.
template <op_info const* op, class device, int inputs, dtype... types>
void launch(call const& c, bound_operand const* operands) {
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    kernel<op_type<op>, device>::run(
        c, tensor<std::conditional_t<(static_cast<int>(i) < inputs), storage<types> const, storage<types>>>{
               reinterpret_cast<storage<types>*>(operands[i].data), operands[i].shape_of, operands[i].count}...);
  }(std::make_index_sequence<sizeof...(types)>{});
}

template <class holder, class device, int step_index> constexpr launcher launcher_of() {
  if constexpr (holder::value.steps[step_index].kind != node_kind::call) return nullptr;
  else
    return []<std::size_t... i>(std::index_sequence<i...>) -> launcher {
      return &launch<holder::value.steps[step_index].op, device, holder::value.steps[step_index].inputs,
                     holder::value.operands[holder::value.steps[step_index].first_operand + static_cast<int>(i)].type...>;
    }(std::make_index_sequence<static_cast<std::size_t>(holder::value.steps[step_index].inputs +
                                                        holder::value.steps[step_index].outputs)>{});
}

template <class holder, class device, std::size_t... i>
constexpr auto make_launchers(std::index_sequence<i...>) {
  return std::array<launcher, sizeof...(i)>{launcher_of<holder, device, static_cast<int>(i)>()...};
}

} // namespace detail

/// The kernel of every step of the plan `holder::value`, null where the step is a loop's begin or end.
template <class holder, class device>
inline constexpr auto launchers =
    detail::make_launchers<holder, device>(std::make_index_sequence<static_cast<std::size_t>(holder::value.steps_size)>{});

} // namespace constrain
