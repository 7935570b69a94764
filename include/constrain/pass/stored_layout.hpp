#pragma once

#include "constrain/op/collective/shard_map.hpp"
#include "constrain/pass/cost.hpp"
#include "constrain/policy/parallel.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The layout in which ranks store a value between the calls that use it. With ZeRO (Rajbhandari et al. 2020), the
/// tensors of a parameter are stored as follows (flat: in shards):
///
///                        zero<1>             zero<2>             zero<3>
///     parameter          replicated or flat  replicated or flat  flat
///     compute copy       replicated          replicated          flat
///     gradient           flat                flat                flat
///     optimizer state    flat                flat                flat
///     working copy       flat                flat                flat
///
/// In stage 1, the micro-batches add to full gradients, which are reduce-scattered once per batch (pass/partition.hpp).
/// A working copy is the fp32 copy on which the update of a 16-bit parameter works; the errors from rounding it into
/// the parameter have the same layout. In stages 1 and 2, a parameter is flat if it has a compute copy, because only
/// the cast to the compute copy and the update read such a parameter. Exception: the average of a parameter is an
/// optimizer state, but has the layout of the parameter. All other values are replicated. Without ZeRO, or with ZeRO
/// over one rank, all values are replicated. `value`: index of the value.
constexpr layout stored_layout(program const& p, int value, slot_of::parallelism const& parallelism) {
  if (parallelism.shards == 1) return layout::replicated;
  auto const& info = p.values[value];
  bool const shards_parameters = parallelism.stage == 3;
  if (info.is_average) return stored_layout(p, info.belongs_to, parallelism);
  bool const is_working_copy = info.role == role::workspace && info.belongs_to >= 0;
  if (info.role == role::gradient || info.role == role::state || is_working_copy) return layout::flat;
  if (is_compute_copy(info.role)) return shards_parameters ? layout::flat : layout::replicated;
  if (is_parameter(info.role)) return shards_parameters || is_copied(p, value) ? layout::flat : layout::replicated;
  return layout::replicated;
}

/// Makes a value flat: its shape becomes the shape of one of `shards` shards. Padding makes all shards equally long.
constexpr void make_flat(value_info& info, std::int64_t shards) {
  info.layout = layout::flat;
  info.full_shape = info.shape;
  info.shape = shape(shard_map{info.full_shape.elements(), shards, chunk_of(info)}.stored());
}

} // namespace constrain
