#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/units.hpp"
#include "constrain/program/backward.hpp"

#include <iterator>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Maximum number of fields in the state of an optimizer.
inline constexpr int maximum_state_fields = program::maximum_state_fields;

/// The number of values that an optimizer keeps per weight. Each field of the optimizer's state is stored as a tensor.
template <class optimizer> constexpr int state_fields() {
  using state = typename optimizer::template state<float>;
  if constexpr (std::is_empty_v<state>) return 0;
  else {
    static_assert(std::is_trivially_copyable_v<state> && sizeof(state) % sizeof(float) == 0,
                  "an optimizer's `template <class real> struct state` has a field of another type than `real`; make "
                  "all its fields `real`");
    static_assert(sizeof(state) <= maximum_state_fields * sizeof(float),
                  "an optimizer's `state` has more than four fields; use at most four");
    return static_cast<int>(sizeof(state) / sizeof(float));
  }
}

/// The name that an optimizer gives to field `i` of its state; null if the optimizer has no `state_names`.
template <class optimizer> constexpr char const* state_name(int i) {
  if constexpr (requires { optimizer::state_names; }) {
    static_assert(std::size(optimizer::state_names) == state_fields<optimizer>(),
                  "an optimizer's `state_names` and its `state` have different lengths; give each field one name");
    return optimizer::state_names[i];
  } else return nullptr;
}

/// The hyperparameters of one step, as kernels read them: the result of `prepare` for this step, once with and once
/// without weight decay.
template <class optimizer, class real> struct step_hyperparameters {
  /// The result of the optimizer's `prepare`, or `hyper` itself if the optimizer has no `prepare`.
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

  prepared decaying, other; // for parameters that decay, and for the others
  optimizer_step step;      // of this update: the first is 1

  /// From `hyper` of an optimizer, for the step `now`.
  step_hyperparameters(typename optimizer::hyper hyper, optimizer_step now)
      : decaying(prepare(hyper, now)), other(decaying), step(now) {
    if constexpr (requires { hyper.weight_decay; }) {
      hyper.weight_decay = 0;
      other = prepare(hyper, now);
    }
  }
};

/// Updates one weight and the fields of its state.
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

/// Options of `update`.
struct update_options {
  bool decays = false; // whether weight decay applies to the parameter
};

/// The update of an optimizer, element by element: weight, state = optimizer::update(weight, gradient * scale, state).
/// Inputs: gradient, clip [norm, scale], `step_hyperparameters` as bytes. Outputs, which are also read: the weight and
/// the fields of the optimizer state.
template <class optimizer> struct update {
  using options = update_options;
  static constexpr char const* name = "update";
  static constexpr unsigned accumulating = ~0u;
  static constexpr bool reads_shards = true;

  static constexpr inferred infer(operand_types const& in) {
    auto result = inferred::one(in[0].type, in[0].shape);
    for (int i = 0; i < state_fields<optimizer>(); ++i) result = result.and_also(in[0].type, in[0].shape);
    return result;
  }
};

} // namespace constrain::op
