#pragma once

#include "constrain/op/clear_unused/clear_unused.hpp"
#include "constrain/op/collective/collective.hpp"
#include "constrain/program/backward.hpp"

#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Options of the ops that write one of the squared norms.
struct squared_norm_options {
  std::int64_t index = 0;     // index of the gradient in the output
  std::int64_t gradients = 1; // number of gradients, which is the extent of the output
};

/// The cost of `sums` sums of squares that together cover all elements of one tensor. The default rule counts one
/// operation per element of the output, not two per element of the tensor.
constexpr cost cost_of_squares(operand_type const& tensor, std::int64_t sums) {
  auto const elements = static_cast<double>(tensor.shape.elements());
  return {.flops = 2 * elements,
          .bytes_read = elements * static_cast<double>(size_of(tensor.type)),
          .bytes_written = static_cast<double>(sums * size_of(dtype::f64))};
}

/// First half of gradient_norm_squared for a sharded gradient: the sum of the squares of each chunk of this rank's
/// shard, [tensors, chunks of a shard], fp64. Padding is not summed, because an op that works on shards may write to
/// the padding. The sums of chunks after the shard's last element are 0.
struct chunk_squares {
  struct options {
    std::int64_t tensors = 1;        // number of tensors in the stack
    std::int64_t stride = 0;         // elements from one tensor of the stack to the next
    std::int64_t elements = 0;       // elements of one full tensor
    std::int64_t shards = 1;         // number of shards of a tensor
    std::int64_t chunk = norm_chunk; // `chunk` of the tensor's shard_map
  };
  static constexpr char const* name = "chunk_squares";
  static constexpr layout_change change{layout::flat, layout::flat};

  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(dtype::f64, shape(o.tensors, norm_chunks(in[0].shape.elements())));
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const&) {
    return cost_of_squares(in[0], norm_chunks(in[0].shape.elements()));
  }
};

/// Second half of gradient_norm_squared for a sharded gradient: squares[index] from the chunk sums of all shards,
/// [shards, tensors, chunks of a shard], added in the same order as in gradient_norm_squared. The other elements of
/// `squares` are as in gradient_norm_squared.
struct chunk_sum {
  using options = squared_norm_options;
  static constexpr char const* name = "chunk_sum";
  static constexpr unsigned accumulating = 0b1;

  static constexpr inferred infer(operand_types const&, options const& o) {
    return inferred::one(dtype::f64, shape(o.gradients));
  }
};

/// Computes the squared norm of a gradient that is divided over the ranks of a tensor group: sums squares[index] over
/// these ranks, in place (`squares` is input 0 and output 0) and in rank order.
struct tensor_norm_squared {
  using options = squared_norm_options;
  static constexpr char const* name = "tensor_norm_squared";
  static constexpr bool exchanges = true;
  static constexpr bool same_data = true;

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};

/// squares[index] = the squared norm of one gradient. squares is [number of gradients], fp64; the first op that writes
/// to it in a run of the program sets its other elements to 0. A gradient is a stack of tensors, one per iteration of
/// the loops that its parameter is stacked over. The squares are summed in chunks of `norm_chunk` elements, the chunks'
/// sums are added up per tensor, and the tensors' sums give the squared norm. On each device, the order depends only on
/// the stack's shape and type. With `optimizer::in_backward`, each call works on one tensor of the stack, and its
/// output is [1].
struct gradient_norm_squared {
  using options = squared_norm_options;
  static constexpr char const* name = "gradient_norm_squared";
  static constexpr unsigned accumulating = 0b1;

  static constexpr inferred infer(operand_types const&, options const& o) {
    return inferred::one(dtype::f64, shape(o.gradients));
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const&) { return cost_of_squares(in[0], 1); }

  /// Appends the form of node `n` for a sharded gradient. Each rank sums the squares of each chunk of its shard, the
  /// chunk sums are gathered, and every rank adds all of them in order, so the result has the same bits as for the full
  /// gradient.
  static constexpr void flat_form(builder& out, node const& n) {
    auto& values = out.program.values;
    auto const& gradient = values[n.inputs[0].value];
    auto const& stacked = gradient.view ? values[gradient.view.of.value] : gradient;
    chunk_squares::options const sharded{.tensors = out.instances(gradient),
                                         .stride = stacked.shape.elements(),
                                         .elements = gradient.full_shape.elements(),
                                         .shards = out.program.shards,
                                         .chunk = chunk_of(gradient)};
    ref const local_sums = out.call<chunk_squares>({n.inputs[0]}, {}, sharded, n.line).outputs[0];
    ref const gathered_sums =
        out.call<gather_ranks>({local_sums}, {}, {.ranks = out.program.shards}, n.line).outputs[0];
    values[local_sums.value].role = values[gathered_sums.value].role = role::communication;
    values[local_sums.value].layout = layout::flat;
    node sum = n;
    sum.inputs[0] = gathered_sums;
    out.append(info_of<chunk_sum>, sum);
  }

  /// Appends the form of node `n` for a gradient that is divided over the ranks of a tensor group: the squared norms of
  /// the ranks are summed. Before that, unused elements of the gradient, which a policy's pass may have changed, are
  /// set to 0.
  static constexpr void divided_form(builder& out, node const& n) {
    append_clear_unused(out, n.inputs[0], n.line);
    out.program.add_node(n);
    out.call<tensor_norm_squared>({n.outputs[0]}, {n.outputs[0]}, unpack<options>(n.attributes), n.line);
  }
};

/// The smallest scale that belongs to a finite norm: the smallest normal number. A scale of 0 would skip the update,
/// and code compiled with -ffast-math may flush a denormal to 0.
inline constexpr double smallest_scale = std::numeric_limits<double>::min();

/// Clipping by the global norm (Pascanu et al. 2013), like torch.nn.utils.clip_grad_norm_: the squared norms of all
/// gradients and the maximum norm (a scalar) -> [norm, scale], fp64. The norm is the square root of the sum of the
/// squared norms. The update multiplies every gradient by scale = min(1, maximum / (norm + 1e-6)). If the maximum is 0
/// or left out, scale is 1. If the norm is not finite, scale is 0, and the update is skipped; with a finite norm, scale
/// is at least `smallest_scale`. If the norm is finite but scale is not finite in fp32, the norm is set to infinity and
/// scale to 0, so the update is skipped too. With the loss scale (a scalar) as input 2, the norm is divided by the loss
/// scale before scale is computed from it, so it is the norm of the unscaled gradients; scale is then divided by the
/// loss scale too, so it also unscales the gradients. With `optimizer::in_backward`, the only input is the squared
/// norms, and scale is not used: each tensor has already been updated with its own scale (op::tensor_scale).
struct clip_coefficient {
  static constexpr char const* name = "clip_coefficient";

  static constexpr inferred infer(operand_types const&) { return inferred::one(dtype::f64, shape(2)); }
};

} // namespace constrain::op
