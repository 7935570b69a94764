#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/op/quantized_update/quantized_update.hpp"
#include "constrain/op/quantized_update/used_elements.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The largest magnitude among x[0], ..., x[count - 1], or the largest finite float if an element is inf or NaN; 0 if
/// `count` is 0. Compares the magnitudes as integers: the compiler may reorder, and so vectorize, an integer maximum.
inline float largest_magnitude(float const* x, int count) {
  std::int32_t max_bits = 0;
  CONSTRAIN_OMP(simd reduction(max : max_bits))
  for (int i = 0; i < count; ++i) max_bits = std::max(max_bits, __builtin_bit_cast(std::int32_t, x[i]) & 0x7fffffff);
  return __builtin_bit_cast(float,
                            std::min(max_bits, __builtin_bit_cast(std::int32_t, std::numeric_limits<float>::max())));
}

/// One field of the optimizer state of a quantization block, in 8 bits per element. Refers to the memory of the codes
/// and of the scale.
struct quantized_block {
  static constexpr int capacity = 256; // maximum number of elements of a block

  std::uint8_t* codes; // [count]
  float* scale;        // [1]
  int count;           // number of elements of the block, without padding

  /// Decodes the field into `to` [count]: scale * the map's value for each code. `map`: the field's map.
  template <class stored> void read(dynamic_map const& map, stored* to) const {
    auto const* const values = map.values();
    auto const* const from = codes;
    auto const factor = *scale;
    simd_loop(count, [=](std::int64_t i) { to[i] = static_cast<stored>(values[from[i]] * factor); });
  }
  /// Sets the scale and the codes from the field's new values `x` [count].
  template <class stored> void write(dynamic_map const& map, stored const* x) const {
    float values[capacity];
    std::int32_t nearest_codes[capacity];
    simd_loop(count, [&, to = &values[0]](std::int64_t i) { to[i] = static_cast<float>(x[i]); });
    auto const largest = largest_magnitude(values, count);
    *scale = largest;
    auto const divisor = largest > 0 ? largest : 1;
    auto const search = map.nearest();
    simd_loop(count,
              [=, from = &values[0], to = &nearest_codes[0]](std::int64_t i) { to[i] = search(from[i] / divisor); });
    auto* const to = codes;
    simd_loop(count, [=, from = &nearest_codes[0]](std::int64_t i) { to[i] = static_cast<std::uint8_t>(from[i]); });
  }
};

} // namespace detail

template <class optimizer> struct kernel<op::quantized_update<optimizer>, cpu> {
  using op = constrain::op::quantized_update<optimizer>;
  static_assert(op::block == detail::quantized_block::capacity);
  static constexpr int fields = op::fields;

  template <class stored, class... states>
  static void run(call_of<op> const& c, tensor<stored const> gradient, tensor<double const> norm_and_scale,
                  tensor<std::uint8_t const> hyper, tensor<stored> weight, states... state) {
    if (norm_and_scale[1] == 0) return; // the gradient norm is not finite: skip the update
    void* const data[] = {state.data...};
    auto const& hyperparameters = constrain::op::hyperparameters_of<optimizer, stored>(hyper);
    block_update<stored> const u{hyperparameters.choose(c.options.decays), hyperparameters.step,
                                 static_cast<stored>(norm_and_scale[1])};

    auto const elements = weight.shape().elements();
    auto const used_elements = detail::used_elements(c, c.options, elements);
    auto const blocks = op::blocks(elements), used_blocks = op::blocks(used_elements);
    auto const instances = elements == 0 ? 0 : weight.count / elements;
    // Quantization blocks per chunk: enough that starting a thread takes little time compared with its work.
    constexpr std::int64_t chunk = 32;
    parallel_chunks(instances * used_blocks, chunk, [&](std::int64_t begin, std::int64_t end) {
      for (auto b = begin; b < end; ++b) {
        auto const instance = b / used_blocks, block_index = b % used_blocks;
        auto const first = instance * elements + block_index * op::block;
        detail::quantized_block field[fields];
        auto const count = static_cast<int>(std::min<std::int64_t>(op::block, used_elements - block_index * op::block));
        for (int i = 0; i < fields; ++i)
          field[i] = {static_cast<std::uint8_t*>(data[i]) + first,
                      static_cast<float*>(data[fields + i]) + instance * blocks + block_index, count};
        u.update(gradient.data + first, weight.data + first, field, std::make_integer_sequence<int, fields>{});
      }
    });
  }

private:
  /// Updates quantization blocks; the members are the same for all blocks.
  template <class stored> struct block_update {
    typename constrain::op::step_hyperparameters<optimizer, stored>::prepared hyperparameters;
    optimizer_step step;
    stored scale; // multiplies the gradient

    template <int... i>
    void update(stored const* gradient, stored* weight, detail::quantized_block const (&field)[fields],
                std::integer_sequence<int, i...>) const {
      stored values[fields][op::block];
      (field[i].read(map(i), values[i]), ...);
      // The captures are copies, so that the loop keeps them in registers.
      simd_loop(field[0].count,
                [=, hyper = hyperparameters, current_step = step, factor = scale, state = &values[0]](std::int64_t k) {
                  constrain::op::update_element<optimizer, stored>(hyper, current_step, gradient[k] * factor, weight[k],
                                                                   state[i][k]...);
                });
      (field[i].write(map(i), values[i]), ...);
    }
    static dynamic_map const& map(int i) { return dynamic_map::of(constrain::op::state_is_signed<optimizer>(i)); }
  };
};

} // namespace constrain
