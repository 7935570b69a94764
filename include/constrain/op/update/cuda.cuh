#pragma once

#include "constrain/device/cuda/multi_tensor.cuh"
#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/op/update/update.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// One parameter of a multi-tensor launch. gradient, weight and each of the fields have `count` elements.
template <class stored, class state, int fields> struct update_entry {
  stored const* gradient;
  stored* weight;
  state* fields_of_state[fields == 0 ? 1 : fields];
  std::int64_t count;   // elements of all instances
  std::int32_t decays;  // whether weight decay applies
  unsigned first_block; // index of the parameter's first block
};

/// Maximum number of elements that a block updates.
inline constexpr std::int64_t update_chunk = 16 * cuda_threads;

/// Updates elements [i, i + count) of a parameter, with `count` at most n. If `in_pack`, `count` must be n, and each
/// array is accessed in packs. Multiplies the gradient by `scale`. All ranks must compute the same bits, so elements in
/// packs and other elements share the code of the computation (see load_elements).
template <class optimizer, int n, class stored, class entry_type, class prepared, int... field>
__device__ void update_pack(entry_type const& entry, std::int64_t i, int count, bool in_pack, stored scale,
                            prepared const& hyper, optimizer_step step, std::integer_sequence<int, field...>) {
  stored gradient[n], weight[n], state[sizeof...(field) + 1][n];
  if (in_pack) {
    load_pack(entry.gradient + i, gradient), load_pack(entry.weight + i, weight);
    (load_pack(entry.fields_of_state[field] + i, state[field]), ...);
  } else {
    load_elements(entry.gradient + i, count, gradient), load_elements(entry.weight + i, count, weight);
    (load_elements(entry.fields_of_state[field] + i, count, state[field]), ...);
  }
  CT_UNROLL
  for (int j = 0; j < n; ++j)
    op::update_element<optimizer, stored>(hyper, step, gradient[j] * scale, weight[j], state[field][j]...);
  if (in_pack) {
    store_pack(weight, entry.weight + i);
    (store_pack(state[field], entry.fields_of_state[field] + i), ...);
  } else {
    store_elements(weight, count, entry.weight + i);
    (store_elements(state[field], count, entry.fields_of_state[field] + i), ...);
  }
}

} // namespace detail

/// Updates several parameters in one launch. A block updates up to `update_chunk` elements of one parameter. All merged
/// calls have the same `norm_and_scale` and `hyper`.
template <class optimizer, class stored, class state, int... field>
static __global__ void __launch_bounds__(cuda_threads)
    update_kernel(multi_tensor<detail::update_entry<stored, state, sizeof...(field)>> tensors,
                  double const* norm_and_scale, op::step_hyperparameters<optimizer, stored> const* hyper) {
  constexpr int n = pack_of<stored>;
  constexpr std::integer_sequence<int, field...> fields{};
  if (norm_and_scale[1] == 0) return; // the gradient norm is not finite: skip the update
  auto const& entry = tensors.entry_of_block(blockIdx.x);
  auto const prepared = entry.decays ? hyper->decaying : hyper->other;
  auto const step = hyper->step;
  auto const scale = static_cast<stored>(norm_and_scale[1]);
  auto const begin = static_cast<std::int64_t>(blockIdx.x - entry.first_block) * detail::update_chunk;
  auto const end = begin + detail::update_chunk < entry.count ? begin + detail::update_chunk : entry.count;
  auto const thread = static_cast<std::int64_t>(threadIdx.x);
  bool const aligned = are_aligned(entry.gradient, entry.weight, entry.fields_of_state[field]...);
  CT_KEEP_LOOP
  for (auto i = begin + thread * n; i < end; i += cuda_threads * n) {
    int const count = end - i < n ? static_cast<int>(end - i) : n;
    detail::update_pack<optimizer, n>(entry, i, count, aligned && count == n, scale, prepared, step, fields);
  }
}

template <class optimizer, class architecture> struct kernel<op::update<optimizer>, cuda<architecture>> {
  /// The storage type of the optimizer state, for weights of type `stored`.
  template <class stored> using state_of = storage<op::state_type<optimizer>(dtype_of<stored>)>;
  template <class stored>
  using tensors_of = multi_tensor<detail::update_entry<stored, state_of<stored>, op::state_fields<optimizer>()>>;

  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) {
    return {.merged = tensors_of<float>::capacity, .shared_inputs = 0b110}; // norm_and_scale, hyper
  }
  template <class stored, class... states>
  static void run(call_of<op::update<optimizer>> const& c, tensor<stored const> gradient,
                  tensor<double const> norm_and_scale, tensor<std::uint8_t const> hyper, tensor<stored> weight,
                  states... state) {
    constexpr int fields = sizeof...(states);
    auto& context = *c.parameters.context;
    static_assert(tensors_of<stored>::capacity == tensors_of<float>::capacity);
    auto& tensors = context.template pending<tensors_of<stored>>(c);
    tensors.add(c, {gradient.data, weight.data, {state.data...}, weight.count, c.options.decays ? 1 : 0, 0});
    if (c.more_tensors_follow) return;
    auto const* const hyperparameters =
        reinterpret_cast<op::step_hyperparameters<optimizer, stored> const*>(hyper.data);
    start(context, tensors, norm_and_scale.data, hyperparameters, std::make_integer_sequence<int, fields>{});
  }

private:
  template <class stored, int... field>
  static void start(cuda_context& context, tensors_of<stored>& tensors, double const* norm_and_scale,
                    op::step_hyperparameters<optimizer, stored> const* hyper, std::integer_sequence<int, field...>) {
    auto const blocks = tensors.place_blocks(
        [](auto const& entry) { return (entry.count + detail::update_chunk - 1) / detail::update_chunk; });
    cuda_launch(context, dim3(blocks), cuda_threads, update_kernel<optimizer, stored, state_of<stored>, field...>,
                tensors, norm_and_scale, hyper);
  }
};

} // namespace constrain
