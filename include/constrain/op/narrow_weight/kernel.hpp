#pragma once

#include "constrain/comm/communicator.hpp"
#include "constrain/device/elements.hpp"
#include "constrain/device/math.hpp"
#include "constrain/device/random_stream.hpp"
#include "constrain/op/narrow_weight/narrow_weight.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Rounds x to one of the two nearest bf16 values: away from zero with probability f / 2^16, otherwise toward zero.
/// Here f is the integer in the lower 16 bits of x, which bf16 drops. The lower 16 bits of `random` must be uniform
/// random bits; the other bits are ignored. Finite values stay finite: if the magnitude of x is above the largest
/// finite bf16 value, x is rounded toward zero. Infinity stays infinity, and NaN stays NaN.
CT_HOST_DEVICE inline bfloat16 round_stochastically(float x, std::uint32_t random) {
  auto const bits = __builtin_bit_cast(std::uint32_t, x);
  constexpr std::uint32_t exponent = 0x7F800000u;
  auto const rounded = bits + (random & 0xFFFFu);
  bfloat16 y(x);
  bool const is_finite = (bits & exponent) != exponent;
  y.bits = is_finite ? static_cast<std::uint16_t>(((rounded & exponent) == exponent ? bits : rounded) >> 16) : y.bits;
  return y;
}

/// Loop body of the kernel: rounds the elements of x [count] that share draw number first / 8 + i of random bits, and
/// stores them in y [count]. A draw covers eight consecutive indices in the full tensor, or in the concatenation of the
/// ranks' ranges (see op::round_stochastically); indices outside of x are skipped.
struct round_stochastically_elements {
  float const* x;
  double const* norm_and_scale; // [norm, scale]; if scale is 0, y keeps its value
  bfloat16* y;
  std::int64_t first, count; // index of x[0] in this tensor or concatenation; number of elements of x
  int random_key;            // random key of the parameter
  std::uint64_t iteration;   // index of the iteration of the enclosing loops (`call::iteration`)
  step_parameters const* parameters;

  /// The number of draws.
  CT_HOST_DEVICE std::int64_t draws() const { return (first + count + 7) / 8 - first / 8; }
  /// The random bits of draw number first / 8 + i: two elements of x share a word.
  CT_HOST_DEVICE auto bits_of(std::int64_t i) const {
    auto const draw = first / 8 + i;
    return stream().draw(draw >> 32, draw);
  }
  CT_HOST_DEVICE random_stream stream() const { return {parameters->seed, parameters->step, random_key, iteration}; }
  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    if (norm_and_scale[1] == 0) return;
    auto const draw = first / 8 + i;
    auto const bits = bits_of(i);
    // Constant indices keep the words in registers.
    store_pair(draw * 8 - first, bits.word[0]), store_pair(draw * 8 + 2 - first, bits.word[1]);
    store_pair(draw * 8 + 4 - first, bits.word[2]), store_pair(draw * 8 + 6 - first, bits.word[3]);
  }

private:
  CT_HOST_DEVICE void store_pair(std::int64_t k, std::uint32_t word) const {
    if (k >= 0 && k < count) y[k] = round_stochastically(x[k], word);
    if (k + 1 >= 0 && k + 1 < count) y[k + 1] = round_stochastically(x[k + 1], word >> 16);
  }
};

/// The loop body of a call on a device.
template <class device>
round_stochastically_elements stochastic_rounding(device, call_of<op::round_stochastically> const& c,
                                                  tensor<float const> x, tensor<double const> norm_and_scale,
                                                  tensor<bfloat16> y) {
  constexpr int first_key = 0x800000; // the random keys of nodes are lower
  // x is one shard of a range of `range_elements` elements, or the full range.
  auto const shard_elements = x.shape().elements(), range_elements = c.options.elements;
  auto const shard_begin = shard_elements == range_elements ? 0 : c.parameters.zero->rank() * shard_elements;
  auto const range_begin = c.options.divided ? c.parameters.tensor->rank() * range_elements : 0;
  return {x.data,      norm_and_scale.data,
          y.data,      range_begin + shard_begin,
          y.count,     first_key + c.options.parameter,
          c.iteration, parameters_on(device{}, c)};
}

/// weight + compensation for one element.
struct compensated {
  CT_HOST_DEVICE float operator()(float weight, float compensation) const { return weight + compensation; }
};

template <class device> struct kernel<op::compensated_sum, device> {
  template <class stored_weight, class stored_compensation>
  static void run(call const& c, tensor<stored_weight const> weight, tensor<stored_compensation const> compensation,
                  tensor<float> y) {
    map_elements(device{}, c, y.count, compensated{}, y.data, weight.data, compensation.data);
  }
};

/// x - bf16(x) for one element, or 0 where bf16(x) is not finite.
struct rounding_error_of {
  CT_HOST_DEVICE float operator()(float x) const {
    auto const rounded = static_cast<float>(bfloat16(x));
    return math::finite(rounded) ? x - rounded : 0;
  }
};

template <class device> struct kernel<op::rounding_error, device> {
  static void run(call const& c, tensor<float const> x, tensor<float> y) {
    map_elements(device{}, c, y.count, rounding_error_of{}, y.data, x.data);
  }
};

} // namespace constrain
