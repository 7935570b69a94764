#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/op/update/update.hpp"
#include "constrain/program/units.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace constrain {

template <class optimizer> struct kernel<op::update<optimizer>, cpu> {
  template <class real, class... states>
  static void run(call const& c, tensor<real const> gradient, tensor<double const> clip,
                  tensor<std::uint8_t const> numbers, tensor<real> weight, states... state) {
    if (clip[1] == 0) return; // a gradient is not finite: nothing may change
    using state_type = typename optimizer::template state<real>;
    constexpr int fields = op::state_fields<optimizer>();
    typename optimizer::hyper hyper;
    std::memcpy(&hyper, numbers.data, sizeof hyper);
    if constexpr (requires { hyper.weight_decay; })
      if (c.options.integer[0] == 0) hyper.weight_decay = 0;
    auto const scale = static_cast<real>(clip[1]);
    optimizer_step const step{c.numbers.updates + 1};
    auto const prepared = prepare<real>(hyper, step);

    for_elements(weight.count, [=](std::int64_t i) {
      if constexpr (fields == 0) {
        state_type none;
        weight[i] = optimizer::template update<real>(weight[i], gradient[i] * scale, none, prepared, step);
      } else {
        auto packed = std::bit_cast<state_type>(std::array<real, fields>{state[i]...});
        weight[i] = optimizer::template update<real>(weight[i], gradient[i] * scale, packed, prepared, step);
        auto const unpacked = std::bit_cast<std::array<real, fields>>(packed);
        std::size_t field = 0;
        ((state[i] = unpacked[field++]), ...);
      }
    });
  }

private:
  /// What depends on the step alone, once a step rather than once a weight.
  template <class real> static auto prepare(typename optimizer::hyper const& hyper, optimizer_step step) {
    if constexpr (requires { optimizer::template prepare<real>(hyper, step); })
      return optimizer::template prepare<real>(hyper, step);
    else if constexpr (requires { optimizer::prepare(hyper, step); }) return optimizer::prepare(hyper, step);
    else return hyper;
  }
};

} // namespace constrain
