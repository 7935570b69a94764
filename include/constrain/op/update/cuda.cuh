#pragma once

#include "constrain/device/cuda/multi_tensor.cuh"
#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/op/update/update.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// One parameter of a multi-tensor launch.
template <class stored, class state, int fields> struct update_entry {
  stored const* gradient;
  stored* weight;
  state* fields_of_state[fields == 0 ? 1 : fields];
  std::int64_t count;  // elements of all instances
  std::int64_t decays; // whether weight decay applies; 64 bits, so that the struct has no padding
};

} // namespace detail

/// The update of several parameters in one launch; blockIdx.y is the index of the parameter.
template <class optimizer, class stored, class state, int... field>
static __global__ void __launch_bounds__(cuda_threads)
    update_kernel(multi_tensor<detail::update_entry<stored, state, sizeof...(field)>> tensors, double const* clip,
                  op::step_hyperparameters<optimizer, stored> const* hyper) {
  if (clip[1] == 0) return; // the gradient norm is not finite: skip the update
  auto const& entry = tensors.entries[blockIdx.y];
  auto const prepared = entry.decays ? hyper->decaying : hyper->other;
  auto const scale = static_cast<stored>(clip[1]);
  auto const stride = static_cast<std::int64_t>(gridDim.x) * cuda_threads;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * cuda_threads + threadIdx.x; i < entry.count; i += stride)
    op::update_element<optimizer, stored>(prepared, hyper->step, entry.gradient[i] * scale, entry.weight[i],
                                          entry.fields_of_state[field][i]...);
}

template <class optimizer, class architecture> struct kernel<op::update<optimizer>, cuda<architecture>> {
  /// The type in which the state of weights of type `stored` is stored.
  template <class stored> using state_of = storage<op::state_type<optimizer>(dtype_of<stored>)>;
  template <class stored>
  using tensors_of = multi_tensor<detail::update_entry<stored, state_of<stored>, op::state_fields<optimizer>()>>;

  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) {
    return {.merged = tensors_of<float>::capacity};
  }
  template <class stored, class... states>
  static void run(call_of<op::update<optimizer>> const& c, tensor<stored const> gradient, tensor<double const> clip,
                  tensor<std::uint8_t const> hyper, tensor<stored> weight, states... state) {
    constexpr int fields = sizeof...(states);
    auto& context = *c.parameters.context;
    static_assert(tensors_of<stored>::capacity == tensors_of<float>::capacity);
    auto& tensors = context.template pending<tensors_of<stored>>(c);
    tensors.add(c, {gradient.data, weight.data, {state.data...}, weight.count, c.options.decays ? 1 : 0});
    if (c.more_tensors_follow) return;
    auto const* const prepared = reinterpret_cast<op::step_hyperparameters<optimizer, stored> const*>(hyper.data);
    start(context, tensors, clip.data, prepared, std::make_integer_sequence<int, fields>{});
  }

private:
  template <class stored, int... field>
  static void start(cuda_context& context, tensors_of<stored> const& tensors, double const* clip,
                    op::step_hyperparameters<optimizer, stored> const* hyper, std::integer_sequence<int, field...>) {
    std::int64_t max_count = 0;
    for (int i = 0; i < tensors.count; ++i)
      max_count = tensors.entries[i].count > max_count ? tensors.entries[i].count : max_count;
    cuda_launch(context, dim3(blocks_for(max_count, cuda_threads), static_cast<unsigned>(tensors.count)), cuda_threads,
                update_kernel<optimizer, stored, state_of<stored>, field...>, tensors, clip, hyper);
  }
};

} // namespace constrain
