#pragma once

#include "constrain/op/adafactor/factored.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The number of parts in which `count` elements are summed, at most 1024. It depends only on the count, so that sums
/// are reproducible.
constexpr std::int64_t adafactor_parts(std::int64_t count) {
  // `part_elements`: maximum number of elements of a part, unless there would be more than `max_parts` parts.
  constexpr std::int64_t part_elements = 4 * cuda_threads, max_parts = 1024;
  auto const parts = (count + part_elements - 1) / part_elements;
  return parts < max_parts ? parts : max_parts;
}

/// The arrays of adafactor_unfactored.
template <class real> struct adafactor_vectors {
  real const *gradient, *squares;
  adafactor_elements<real> elements;
  real* new_squares;
  double const* norm_and_scale;
  op::adafactor_step const* hyper;
  double *weight_squares, *update_squares; // [parts]: sums of the squares of the weights, and of the update
  adafactor_rates* rates;

  /// Element i of the update, before the multiplication by `adafactor_rates::clipped_rate`.
  __device__ real direction(std::int64_t i) const {
    return gradient[i] * static_cast<real>(norm_and_scale[1]) / math::sqrt(new_squares[i]);
  }
};

} // namespace detail

// Computes the new second moments and, for each part, the sums of the squares of the weights and of the update. One
// block per part.
template <class real>
static __global__ void __launch_bounds__(cuda_threads)
    adafactor_moments_kernel(detail::adafactor_vectors<real> arrays, std::int64_t count) {
  __shared__ block_reduction<double>::memory shared;
  auto const scale = static_cast<real>(arrays.norm_and_scale[1]), epsilon = static_cast<real>(arrays.hyper->epsilon1);
  auto const beta2 = static_cast<real>(arrays.hyper->beta2);
  auto const parts = static_cast<std::int64_t>(gridDim.x), part = static_cast<std::int64_t>(blockIdx.x);
  auto const begin = part_begin(count, parts, part), end = part_begin(count, parts, part + 1);
  double weight_squares = 0, update_squares = 0;
  for (auto i = begin + threadIdx.x; i < end; i += cuda_threads) {
    real const g = arrays.gradient[i] * scale;
    arrays.new_squares[i] = beta2 * arrays.squares[i] + (1 - beta2) * (op::limited_square(g) + epsilon);
    auto const update = static_cast<double>(arrays.direction(i));
    auto const weight = static_cast<double>(arrays.elements.weight[i]);
    weight_squares += weight * weight, update_squares += update * update;
  }
  weight_squares = block_reduction<double>{shared}.sum(weight_squares);
  update_squares = block_reduction<double>{shared}.sum(update_squares);
  if (threadIdx.x == 0) arrays.weight_squares[part] = weight_squares, arrays.update_squares[part] = update_squares;
}

// Computes the new weights and, if `first_moment`, the new first moment.
template <bool first_moment, class real>
static __global__ void __launch_bounds__(cuda_threads)
    adafactor_unfactored_kernel(detail::adafactor_vectors<real> arrays, std::int64_t count) {
  auto const rates = *arrays.rates;
  auto const clipped_rate = static_cast<real>(rates.clipped_rate);
  auto const stride = static_cast<std::int64_t>(gridDim.x) * cuda_threads;
  CT_KEEP_LOOP
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * cuda_threads + threadIdx.x; i < count; i += stride) {
    real update[1] = {arrays.direction(i) * clipped_rate};
    arrays.elements.template store<first_moment>(i, *arrays.hyper, rates.rate, update);
  }
}

template <class optimizer, class architecture> struct kernel<op::adafactor_unfactored<optimizer>, cuda<architecture>> {
  using call_type = call_of<op::adafactor_unfactored<optimizer>>;

  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const&) {
    return {.scratch = 8 * (2 * detail::adafactor_parts(in[3].count) + 2), .launches = 3};
  }
  template <class real>
  static void run(call_type const& c, tensor<real const> gradient, tensor<double const> norm_and_scale,
                  tensor<std::uint8_t const> bytes, tensor<real const> weight, tensor<real const> squares,
                  tensor<real> new_weight, tensor<real> new_squares) {
    step<false>(c, gradient, norm_and_scale, bytes, squares, {weight.data, nullptr, new_weight.data, nullptr},
                new_squares);
  }
  template <class real>
  static void run(call_type const& c, tensor<real const> gradient, tensor<double const> norm_and_scale,
                  tensor<std::uint8_t const> bytes, tensor<real const> weight, tensor<real const> squares,
                  tensor<real const> average, tensor<real> new_weight, tensor<real> new_squares,
                  tensor<real> new_average) {
    step<true>(c, gradient, norm_and_scale, bytes, squares,
               {weight.data, average.data, new_weight.data, new_average.data}, new_squares);
  }

private:
  template <bool first_moment, class real>
  static void step(call_type const& c, tensor<real const> gradient, tensor<double const> norm_and_scale,
                   tensor<std::uint8_t const> bytes, tensor<real const> squares,
                   detail::adafactor_elements<real> const& elements, tensor<real> new_squares) {
    auto const count = gradient.count, parts = detail::adafactor_parts(count);
    auto* const weight_squares = c.template scratch_as<double>();
    auto* const update_squares = weight_squares + parts;
    detail::adafactor_vectors<real> const arrays{
        gradient.data,    squares.data,        elements,
        new_squares.data, norm_and_scale.data, detail::adafactor_step_in<optimizer, real>(bytes, c.options.decays),
        weight_squares,   update_squares,      reinterpret_cast<detail::adafactor_rates*>(update_squares + parts)};
    auto& context = *c.parameters.context;
    cuda_launch(context, dim3(static_cast<unsigned>(parts)), cuda_threads, adafactor_moments_kernel<real>, arrays,
                count);
    cuda_launch(context, dim3(1), cuda_threads, adafactor_rates_kernel<double>, arrays.hyper, arrays.weight_squares,
                arrays.update_squares, parts, count, arrays.rates);
    cuda_launch(context, dim3(blocks_for(count, cuda_threads)), cuda_threads,
                adafactor_unfactored_kernel<first_moment, real>, arrays, count);
  }
};

} // namespace constrain
