#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/units.hpp"
#include "constrain/program/backward.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// The most fields that an optimizer's state may have.
inline constexpr int maximum_state_fields = 4;

/// How many reals an element-wise optimizer keeps per weight; its state is stored field by field.
template <class optimizer> constexpr int state_fields() {
  using state = typename optimizer::template state<float>;
  if constexpr (std::is_empty_v<state>) return 0;
  else {
    static_assert(std::is_trivially_copyable_v<state> && sizeof(state) % sizeof(float) == 0,
                  "an optimizer's `template <class real> struct state` holds fields of type real alone");
    static_assert(sizeof(state) <= 4 * sizeof(float),
                  "an optimizer's state holds at most four reals a weight; drop some");
    return static_cast<int>(sizeof(state) / sizeof(float));
  }
}

/// What the host hands the kernels once a step: the optimizer's hyperparameters, `prepared` for this step (by the
/// optimizer's `prepare`, where it has one), for parameters that decay and for those that do not.
template <class optimizer, class real> struct step_hyperparameters {
  static auto prepare(typename optimizer::hyper const& hyper, optimizer_step step) {
    if constexpr (requires { optimizer::template prepare<real>(hyper, step); })
      return optimizer::template prepare<real>(hyper, step);
    else if constexpr (requires { optimizer::prepare(hyper, step); }) return optimizer::prepare(hyper, step);
    else return hyper;
  }
  using prepared = decltype(prepare(typename optimizer::hyper{}, optimizer_step{}));
  static_assert(std::is_trivially_copyable_v<prepared>,
                "an optimizer's hyperparameters are copied to the device as bytes; keep "
                "`hyper`, and what `prepare` returns, trivially copyable");

  prepared decaying, other;
  optimizer_step step;

  /// Prepares both sets of hyperparameters for the step.
  step_hyperparameters(typename optimizer::hyper hyper, optimizer_step now)
      : decaying(prepare(hyper, now)), other(decaying), step(now) {
    if constexpr (requires { hyper.weight_decay; }) {
      hyper.weight_decay = 0;
      other = prepare(hyper, now);
    }
  }
};

/// Updates one weight and its state fields.
template <class optimizer, class real, class prepared, class... fields>
CT_HOST_DEVICE inline void update_element(prepared const& hyper, optimizer_step step, real gradient, real& weight,
                                          fields&... field) {
  using state = typename optimizer::template state<real>;
  if constexpr (sizeof...(fields) == 0) {
    state none;
    weight = optimizer::template update<real>(weight, gradient, none, hyper, step);
  } else {
    struct packed {
      real field[sizeof...(fields)];
    };
    auto s = __builtin_bit_cast(state, packed{{field...}});
    weight = optimizer::template update<real>(weight, gradient, s, hyper, step);
    auto const changed = __builtin_bit_cast(packed, s);
    int next = 0;
    ((field = changed.field[next++]), ...);
  }
}

/// weight, states = optimizer::update(weight, gradient * scale, states): inputs gradient, clip [norm, scale], the
/// `step_hyperparameters`; outputs, read and written, the weight and its state fields. Attribute 0: whether it decays.
template <class optimizer> struct update {
  static constexpr char const* name = "update";
  static constexpr unsigned accumulating = ~0u;
  static constexpr bool reads_shards = true;

  static constexpr inferred infer(operand_types const& in, attributes const&) {
    auto result = inferred::one(in[0].type, in[0].shape);
    for (int i = 0; i < state_fields<optimizer>(); ++i) result = result.and_also(in[0].type, in[0].shape);
    return result;
  }
};

} // namespace constrain::op
