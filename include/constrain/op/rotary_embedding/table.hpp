#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/device/math.hpp"
#include "constrain/device/turns.hpp"
#include "constrain/op/rotary_embedding/rotary_embedding.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Frequency j of rotary position embeddings, for j in [0, head width / 2), in turns per token; see `rotary_options`.
CT_HOST_DEVICE inline double rotary_frequency(rotary_options const& o, std::int64_t j) {
  double const frequency = math::pow(o.theta, -2.0 * static_cast<double>(j) / o.head_width) / 6.283185307179586;
  double const scaled_frequency = frequency / o.factor;
  if (o.original_context == 0) return scaled_frequency;
  double const turns = o.original_context * frequency;
  if (turns <= o.low_freq_factor) return scaled_frequency;
  if (turns >= o.high_freq_factor) return frequency;
  double const ramp = (turns - o.low_freq_factor) / (o.high_freq_factor - o.low_freq_factor);
  return scaled_frequency + ramp * (frequency - scaled_frequency);
}

} // namespace detail

/// Loop body of the kernel: stores the cosine and the sine of pair i in `table` [tokens, head width]. Pair i has
/// frequency i % half at position i / half, where half is head width / 2.
template <class accumulate> struct rotary_table_elements {
  rotary_options options;
  accumulate* table;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t const half = options.head_width / 2, token = i / half, j = i % half;
    double const turns = static_cast<double>(token) * detail::rotary_frequency(options, j);
    accumulate* const row = table + token * options.head_width;
    row[j] = static_cast<accumulate>(math::cosine_of_turns(turns));
    row[half + j] = static_cast<accumulate>(math::sine_of_turns(turns));
  }
};

template <class device> struct kernel<op::rotary_table, device> {
  template <class stored, class accumulate>
  static void run(call_of<op::rotary_table> const& c, tensor<stored const>, tensor<accumulate> table) {
    for_elements(device{}, c, table.count / 2, rotary_table_elements<accumulate>{c.options, table.data});
  }
};

} // namespace constrain
