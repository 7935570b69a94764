#pragma once

#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/op/quantized_update/quantized_update.hpp"
#include "constrain/op/quantized_update/used_elements.hpp"

#include <sm_30_intrinsics.h>

#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The operands of quantized_update; codes[i] and scales[i] belong to field i of the state. `elements`: stored elements
/// of one tensor on this rank, with the padding of its shard; `used`: without that padding; `instances`: number of
/// tensors in the stack; `in_packs`: whether complete quantization blocks can be accessed in packs.
template <class stored, int fields> struct quantized_operands {
  stored const* gradient;
  stored* weight;
  std::uint8_t* codes[fields];
  float* scales[fields];
  std::int64_t elements, used, instances;
  bool in_packs;
};

/// The maps of a state's fields, as a kernel's argument: the signed map, the unsigned one, or both.
template <class optimizer> struct quantized_maps {
  static constexpr int fields = op::state_fields<optimizer>();
  /// If `is_signed`: whether any field is signed. Otherwise: whether any field is unsigned.
  static constexpr bool has_map(bool is_signed) {
    for (int i = 0; i < fields; ++i)
      if (op::state_is_signed<optimizer>(i) == is_signed) return true;
    return false;
  }
  static constexpr int count = has_map(true) && has_map(false) ? 2 : 1;
  /// The index of the map of field i.
  template <int i> static constexpr int index = count == 2 && !op::state_is_signed<optimizer>(i) ? 1 : 0;

  dynamic_map maps[count];

  /// Copies of the host's maps.
  static quantized_maps copy_from_host() {
    if constexpr (count == 2) return {{dynamic_map::of(true), dynamic_map::of(false)}};
    else return {{dynamic_map::of(has_map(true))}};
  }
};

/// The elements of a quantization block in a warp: every lane holds eight of them, in packs of 4 consecutive elements,
/// at 4 lane and 4 (lane + 32).
struct quantized_lanes {
  static constexpr int per_lane = 8; // elements per lane
  static constexpr int n = 4;        // elements of a pack: 16 bytes in fp32, 4 bytes of codes
  static constexpr int packs = per_lane / n;
  int count;     // elements of the quantization block, at most 256
  bool in_packs; // whether `load` and `store` access packs instead of single elements; then `count` must be 256

  /// The index, in the quantization block, of the first element of this lane's pack k.
  __device__ static int index(int k) { return (static_cast<int>(threadIdx.x % 32) + 32 * k) * n; }
  /// The number of elements in pack k of this lane; may be negative if there are none.
  __device__ int elements(int k) const { return in_packs || count - index(k) > n ? n : count - index(k); }

  /// Loads pack k of this lane; elements at or beyond `count` are 0. `from`: the first element of the quantization
  /// block.
  template <class T, class real> __device__ void load(int k, T const* from, real (&to)[n]) const {
    if (in_packs) load_pack(from + index(k), to);
    else load_elements(from + index(k), elements(k), to);
  }
  /// Stores pack k of this lane, except elements at or beyond `count`. `to`: the first element of the quantization
  /// block.
  template <class T, class real> __device__ void store(int k, real const (&from)[n], T* to) const {
    if (in_packs) store_pack(from, to + index(k));
    else store_elements(from, elements(k), to + index(k));
  }
  /// Decodes this lane's elements of a field with the values of the field's map, [256]. Elements at or beyond `count`
  /// are 0. `codes`: the codes of the quantization block, here and in `write`.
  template <class stored>
  __device__ void read(std::uint8_t const* codes, float scale, float const* values, stored (&to)[per_lane]) const {
    CT_UNROLL
    for (int k = 0; k < packs; ++k) {
      std::uint8_t pack[n];
      load(k, codes, pack);
      CT_UNROLL
      for (int j = 0; j < n; ++j)
        to[k * n + j] = j < elements(k) ? static_cast<stored>(values[pack[j]] * scale) : stored(0);
    }
  }
  /// Sets the scale and the codes from the field's new values `x` in all lanes; `nearest` is the search in the field's
  /// map. As integers, inf and NaN compare greater than every finite magnitude, so that they make the scale the largest
  /// finite float. All lanes of the warp must call this function.
  template <class stored>
  __device__ void write(stored const (&x)[per_lane], dynamic_map::search const& nearest, std::uint8_t* codes,
                        float* scale) const {
    std::int32_t largest_bits = 0;
    CT_UNROLL
    for (int j = 0; j < per_lane; ++j) {
      auto const bits = __builtin_bit_cast(std::int32_t, static_cast<float>(x[j])) & 0x7fffffff;
      if (j % n < elements(j / n) && bits > largest_bits) largest_bits = bits;
    }
    CT_UNROLL
    for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2) {
      auto const bits = __shfl_xor_sync(0xFFFFFFFF, largest_bits, lane_mask);
      if (bits > largest_bits) largest_bits = bits;
    }
    constexpr std::int32_t infinity = 0x7f800000;
    auto const largest = __builtin_bit_cast(float, largest_bits < infinity ? largest_bits : infinity - 1);
    if (threadIdx.x % 32 == 0) *scale = largest;
    float const divisor = largest > 0 ? largest : 1;
    CT_UNROLL
    for (int k = 0; k < packs; ++k) {
      std::uint8_t pack[n];
      CT_UNROLL
      for (int j = 0; j < n; ++j)
        pack[j] = static_cast<std::uint8_t>(nearest(static_cast<float>(x[k * n + j]) / divisor));
      store(k, pack, codes);
    }
  }
};

/// Updates the quantization block that begins at element `first` of a stack, with the scales at `scale_index`. All
/// lanes of a warp must take part. `values`: the maps' values. All ranks must compute the same bits, so blocks in packs
/// and other blocks share the code of the computation (see load_elements).
template <class optimizer, class stored, class map_values, class prepared, int... field>
__device__ void update_block(quantized_lanes lanes, quantized_operands<stored, sizeof...(field)> const& x,
                             std::int64_t first, std::int64_t scale_index, quantized_maps<optimizer> const& maps,
                             map_values const& values, stored scale, prepared const& hyper, optimizer_step step,
                             std::integer_sequence<int, field...>) {
  using maps_of = quantized_maps<optimizer>;
  constexpr int n = quantized_lanes::n;
  stored state[sizeof...(field)][quantized_lanes::per_lane];
  (lanes.read(x.codes[field] + first, x.scales[field][scale_index], values[maps_of::template index<field>],
              state[field]),
   ...);
  CT_UNROLL
  for (int k = 0; k < lanes.packs; ++k) {
    stored gradient[n], weight[n];
    lanes.load(k, x.gradient + first, gradient), lanes.load(k, x.weight + first, weight);
    CT_UNROLL
    for (int j = 0; j < n; ++j)
      op::update_element<optimizer, stored>(hyper, step, gradient[j] * scale, weight[j], state[field][k * n + j]...);
    lanes.store(k, weight, x.weight + first);
  }
  (lanes.write(state[field], maps.maps[maps_of::template index<field>].nearest(), x.codes[field] + first,
               x.scales[field] + scale_index),
   ...);
}

} // namespace detail

// Updates one parameter with 8-bit states. A warp handles quantization blocks of 256 elements. Thread blocks with the
// same blockIdx.y handle the tensors blockIdx.y, blockIdx.y + gridDim.y, ... of a stack. `decays`: whether weight decay
// applies.
template <class optimizer, class stored, int... field>
static __global__ void __launch_bounds__(cuda_threads)
    quantized_update_kernel(detail::quantized_operands<stored, sizeof...(field)> x,
                            detail::quantized_maps<optimizer> maps, double const* norm_and_scale,
                            op::step_hyperparameters<optimizer, stored> const* hyper, bool decays) {
  using maps_of = detail::quantized_maps<optimizer>;
  constexpr int block = op::quantized_update<optimizer>::block;
  static_assert(block == 32 * detail::quantized_lanes::per_lane && block == cuda_threads &&
                block == dynamic_map::codes);
  if (norm_and_scale[1] == 0) return; // the gradient norm is not finite: skip the update
  __shared__ float values[maps_of::count][block];
  CT_UNROLL
  for (int map = 0; map < maps_of::count; ++map) values[map][threadIdx.x] = maps.maps[map].values()[threadIdx.x];
  __syncthreads();
  auto const prepared = decays ? hyper->decaying : hyper->other;
  auto const scale = static_cast<stored>(norm_and_scale[1]);
  auto const stride = static_cast<std::int64_t>(gridDim.x) * (cuda_threads / 32);
  for (std::int64_t instance = blockIdx.y; instance < x.instances; instance += gridDim.y)
    for (auto b = static_cast<std::int64_t>(blockIdx.x) * (cuda_threads / 32) + threadIdx.x / 32; b * block < x.used;
         b += stride) {
      auto const remaining = x.used - b * block;
      detail::quantized_lanes const lanes{static_cast<int>(remaining < block ? remaining : block),
                                          x.in_packs && remaining >= block};
      detail::update_block<optimizer>(lanes, x, instance * x.elements + b * block,
                                      instance * ((x.elements + block - 1) / block) + b, maps, values, scale, prepared,
                                      hyper->step, std::integer_sequence<int, field...>{});
    }
}

template <class optimizer, class architecture> struct kernel<op::quantized_update<optimizer>, cuda<architecture>> {
  using op = constrain::op::quantized_update<optimizer>;
  static constexpr int fields = op::fields;

  template <class stored, class... states>
  static void run(call_of<op> const& c, tensor<stored const> gradient, tensor<double const> norm_and_scale,
                  tensor<std::uint8_t const> hyper, tensor<stored> weight, states... state) {
    void* const data[] = {state.data...};
    auto const elements = weight.shape().elements();
    detail::quantized_operands<stored, fields> x{gradient.data, weight.data, {}, {}, elements, 0, 0, false};
    for (int i = 0; i < fields; ++i) {
      x.codes[i] = static_cast<std::uint8_t*>(data[i]);
      x.scales[i] = static_cast<float*>(data[fields + i]);
    }
    x.used = detail::used_elements(c, c.options, elements);
    x.in_packs = elements % detail::quantized_lanes::n == 0 && are_aligned(x.gradient, x.weight, state.data...);
    x.instances = elements == 0 ? 0 : weight.count / elements;
    start(c, x, norm_and_scale, hyper, std::make_integer_sequence<int, fields>{});
  }

private:
  template <class stored, int... field>
  static void start(call_of<op> const& c, detail::quantized_operands<stored, fields> const& x,
                    tensor<double const> norm_and_scale, tensor<std::uint8_t const> hyper,
                    std::integer_sequence<int, field...>) {
    if (x.used == 0 || x.instances == 0) return;
    auto const blocks = blocks_for(op::blocks(x.used), cuda_threads / 32);
    // CUDA allows at most 65535 blocks in y.
    auto const instances = static_cast<unsigned>(std::min<std::int64_t>(x.instances, 65535));
    auto const* const hyperparameters =
        reinterpret_cast<constrain::op::step_hyperparameters<optimizer, stored> const*>(hyper.data);
    cuda_launch(*c.parameters.context, dim3(blocks, instances), cuda_threads,
                quantized_update_kernel<optimizer, stored, field...>, x,
                detail::quantized_maps<optimizer>::copy_from_host(), norm_and_scale.data, hyperparameters,
                c.options.decays);
  }
};

} // namespace constrain
