#pragma once

#include "constrain/op/collective/shard_map.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Number of elements of the exchange buffer of reduce_scatter, all_reduce and tensor_sum, which exchange larger
/// tensors in several slices. (On CUDA devices, all_reduce uses the buffer only with reduce::ordered, the default.) The
/// buffer of tensor_gather has at most this many elements, unless a single row, gathered from all ranks, has more.
inline constexpr std::int64_t exchange_elements = 1 << 18;

/// Gathers the full tensor from its shards on the ranks of `step_parameters::zero`, which together hold all shards:
/// shard [elements per rank] -> full tensor of shape `full`. The padding of short shards (shard_map) is dropped.
struct all_gather {
  struct options {
    shape full;                      // shape of the full tensor
    std::int64_t chunk = norm_chunk; // `chunk` of the tensor's shard_map
  };
  static constexpr char const* name = "all_gather";
  static constexpr layout_change change{layout::flat, layout::replicated};
  static constexpr bool exchanges = true;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(in[0].type, o.full);
  }
};

/// This rank's shard of a full tensor that is the same on all ranks of `step_parameters::zero`: x -> shard [elements
/// per rank]. A short shard is padded with zeros (shard_map).
struct local_shard {
  struct options {
    std::int64_t shards = 1;         // number of shards, which is the number of ranks in `step_parameters::zero`
    std::int64_t chunk = norm_chunk; // `chunk` of the tensor's shard_map
  };
  static constexpr char const* name = "local_shard";
  static constexpr layout_change change{layout::replicated, layout::flat};

  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(in[0].type, shape(shard_map{in[0].shape.elements(), o.shards, o.chunk}.stored()));
  }
};

/// gradient [...] -> shard [elements per rank]: shard (+)= this rank's shard of the gradient, summed over the ranks of
/// `step_parameters::data`, in rank order (on CUDA devices, only with the run option reduce::ordered). (+)=: the first
/// write in a run of the program overwrites the shard; later writes add to it. A short shard is padded with zeros
/// (shard_map). Output 1 is the exchange buffer.
struct reduce_scatter {
  struct options {
    std::int64_t shards = 1; // number of shards, which is the number of ranks in `step_parameters::zero`
  };
  static constexpr char const* name = "reduce_scatter";
  static constexpr unsigned accumulating = 0b1;
  static constexpr unsigned workspace = 0b10;
  static constexpr layout_change change{layout::partial, layout::flat};
  static constexpr bool exchanges = true;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(in[0].type, shape(shard_map{in[0].shape.elements(), o.shards}.stored()))
        .and_also(in[0].type, shape(exchange_elements));
  }
};

/// Sums y over the ranks of `step_parameters::data`, in place: y is input 0 and output 0. The terms are added in rank
/// order (on CUDA devices, only with the run option reduce::ordered). Output 1 is the exchange buffer.
struct all_reduce {
  static constexpr char const* name = "all_reduce";
  static constexpr unsigned workspace = 0b10;
  static constexpr layout_change change{layout::partial, layout::replicated};
  static constexpr bool exchanges = true;

  static constexpr inferred infer(operand_types const& in) {
    return inferred::one(in[0].type, in[0].shape).and_also(in[0].type, shape(exchange_elements));
  }
};

/// Stacks the tensors of all ranks of `step_parameters::zero`, in rank order: x [...] -> [ranks, ...].
struct gather_ranks {
  struct options {
    std::int64_t ranks = 1; // number of ranks in `step_parameters::zero`
  };
  static constexpr char const* name = "gather_ranks";
  static constexpr layout_change change{layout::flat, layout::replicated};
  static constexpr bool exchanges = true;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    shape stacked(o.ranks);
    for (int k = 0; k < in[0].shape.rank; ++k) stacked.extent[stacked.rank++] = in[0].shape.extent[k];
    return inferred::one(in[0].type, stacked);
  }
};

/// all_reduce for a tensor of a few elements, also in place and over the ranks of `step_parameters::data`: every rank
/// gathers the tensors of all ranks and adds them in rank order (on CUDA devices, also without reduce::ordered). Output
/// 1 is scratch for the gathered tensors.
struct all_reduce_small {
  static constexpr char const* name = "all_reduce_small";
  static constexpr unsigned workspace = 0b10;
  static constexpr layout_change change{layout::partial, layout::replicated};
  static constexpr bool exchanges = true;
  static constexpr std::int64_t maximum_ranks = 1024; // capacity of the scratch, in ranks

  static constexpr inferred infer(operand_types const& in) {
    return inferred::one(in[0].type, in[0].shape).and_also(in[0].type, shape(maximum_ranks, in[0].shape.elements()));
  }
};

} // namespace constrain::op
