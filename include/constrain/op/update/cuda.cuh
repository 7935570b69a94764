#pragma once

#include "constrain/device/cuda/group.cuh"
#include "constrain/device/cuda/launch.cuh"
#include "constrain/op/update/update.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

template <class real, int fields> struct update_entry {
  real const* gradient;
  real* weight;
  real* state[fields == 0 ? 1 : fields];
  std::int64_t count;
  bool decays;
};

} // namespace detail

/// All weights in one launch: a row of blocks for every entry.
template <class optimizer, class real, int... field>
static __global__ void __launch_bounds__(cuda_threads)
    update_kernel(cuda_group<detail::update_entry<real, sizeof...(field)>> group, double const* clip,
                  op::update_numbers<optimizer, real> const* numbers) {
  if (clip[1] == 0) return; // a gradient is not finite: nothing may change
  auto const& entry = group.entries[blockIdx.y];
  auto const prepared = entry.decays ? numbers->decaying : numbers->other;
  auto const scale = static_cast<real>(clip[1]);
  auto const stride = static_cast<std::int64_t>(gridDim.x) * cuda_threads;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * cuda_threads + threadIdx.x; i < entry.count; i += stride)
    op::update_element<optimizer, real>(prepared, numbers->step, entry.gradient[i] * scale, entry.weight[i], entry.state[field][i]...);
}

template <class optimizer, class architecture> struct kernel<op::update<optimizer>, cuda<architecture>> {
  template <class real, class... states>
  static void run(call const& c, tensor<real const> gradient, tensor<double const> clip, tensor<std::uint8_t const> numbers,
                  tensor<real> weight, states... state) {
    constexpr int fields = sizeof...(states);
    auto& queue = *c.numbers.queue;
    auto& group = queue.template pending<cuda_group<detail::update_entry<real, fields>>>();
    group.add({gradient.data, weight.data, {state.data...}, weight.count, c.options.integer[0] != 0});
    if (c.same_kernel_follows && !group.full()) return;
    auto const* const prepared = reinterpret_cast<op::update_numbers<optimizer, real> const*>(numbers.data);
    start(queue, group, clip.data, prepared, std::make_integer_sequence<int, fields>{});
    group.count = 0;
  }

private:
  template <class real, int... field>
  static void start(cuda_queue& queue, cuda_group<detail::update_entry<real, sizeof...(field)>> const& group, double const* clip,
                    op::update_numbers<optimizer, real> const* numbers, std::integer_sequence<int, field...>) {
    std::int64_t largest = 0;
    for (int i = 0; i < group.count; ++i) largest = group.entries[i].count > largest ? group.entries[i].count : largest;
    cuda_launch(queue, dim3(blocks_for(largest, cuda_threads), static_cast<unsigned>(group.count)), cuda_threads,
                update_kernel<optimizer, real, field...>, group, clip, numbers);
  }
};

} // namespace constrain
