#pragma once

#include "constrain/device/cuda/reduce.cuh"
#include "constrain/device/math.hpp"
#include "constrain/op/adafactor/adafactor.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The hyperparameters for one parameter, in device memory. `decays`: whether weight decay applies to the parameter.
/// Every variant of Adafactor uses `adafactor_step`, so the kernels do not depend on `optimizer`.
template <class optimizer, class real>
op::adafactor_step const* adafactor_step_in(tensor<std::uint8_t const> bytes, bool decays) {
  auto const* const hyper = reinterpret_cast<op::step_hyperparameters<optimizer, real> const*>(bytes.data);
  return decays ? &hyper->decaying : &hyper->other;
}

/// `rate`: the step size of a parameter. `clipped_rate`: the step size times the factor that limits the update's root
/// mean square.
struct adafactor_rates {
  double rate, clipped_rate;
};

/// The weights and the first moment, before and after an update. Without a first moment, `average` and `new_average`
/// are null.
template <class real> struct adafactor_elements {
  real const *weight, *average;
  real *new_weight, *new_average;

  /// Stores n consecutive weights, beginning at element i. Each is the decayed weight minus its update or, with a first
  /// moment, minus the moving average of its updates, which is stored, too. `update`: the updates times
  /// `adafactor_rates::clipped_rate`; overwritten if there is a first moment.
  template <bool first_moment, int n>
  __device__ void store(std::int64_t i, op::adafactor_step const& h, double rate, real (&update)[n]) const {
    auto const keep = static_cast<real>(1 - rate * h.weight_decay), beta1 = static_cast<real>(h.beta1);
    real values[n];
    if constexpr (first_moment) {
      load_pack(average + i, values);
      CT_UNROLL
      for (int j = 0; j < n; ++j) update[j] = beta1 * values[j] + (1 - beta1) * update[j];
      store_pack(update, new_average + i);
    }
    load_pack(weight + i, values);
    CT_UNROLL
    for (int j = 0; j < n; ++j) values[j] = values[j] * keep - update[j];
    store_pack(values, new_weight + i);
  }
};

} // namespace detail

// *rates = the rates of a parameter of `count` elements, from `parts` partial sums of the squares of its weights and of
// its update. One block.
template <class sum>
static __global__ void __launch_bounds__(cuda_threads)
    adafactor_rates_kernel(op::adafactor_step const* hyper, sum const* weight_squares, sum const* update_squares,
                           std::int64_t parts, std::int64_t count, detail::adafactor_rates* rates) {
  __shared__ typename block_reduction<sum>::memory shared;
  auto const h = *hyper;
  sum weight_rms = 0, update_rms = 0;
  for (auto k = static_cast<std::int64_t>(threadIdx.x); k < parts; k += cuda_threads)
    weight_rms += weight_squares[k], update_rms += update_squares[k];
  weight_rms = math::sqrt(block_reduction<sum>{shared}.sum(weight_rms) / static_cast<sum>(count));
  update_rms = math::sqrt(block_reduction<sum>{shared}.sum(update_rms) / static_cast<sum>(count)) / h.clip_threshold;
  if (threadIdx.x != 0) return;
  sum const rate = h.scale_parameter == 0 ? h.rate : h.rate * (weight_rms > h.epsilon2 ? weight_rms : h.epsilon2);
  *rates = {rate, rate / (update_rms > 1 ? update_rms : 1)};
}

} // namespace constrain
