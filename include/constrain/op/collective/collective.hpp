#pragma once

#include "constrain/op/collective/shard_map.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Number of elements of the exchange buffer, through which ranks exchange a gradient slice by slice.
inline constexpr std::int64_t exchange_elements = 1 << 18;

/// The full tensor from its shards on the ranks of a group (the ranks that together hold all shards of a tensor): shard
/// [elements per rank] -> the shape in the attributes.
struct all_gather {
  static constexpr char const* name = "all_gather";
  static constexpr bool reads_shards = true;

  static constexpr inferred infer(operand_types const& in, attributes const& a) {
    return inferred::one(in[0].type, full_shape(a));
  }
  /// The shape in the attributes: the extents that are not 0.
  static constexpr shape full_shape(attributes const& a) {
    shape s;
    for (auto extent : a.integer)
      if (extent != 0) s.extent[s.rank++] = extent;
    return s;
  }
};

/// shard (+)= this rank's shard of the sum of the gradient over all ranks, added in rank order. (+)=: the first write
/// in a run of the program overwrites the output, later writes add to it. Attribute 0: number of shards, one per rank
/// of a group. Output 1 is the exchange buffer.
struct reduce_scatter {
  static constexpr char const* name = "reduce_scatter";
  static constexpr unsigned accumulating = 0b1;
  static constexpr unsigned workspace = 0b10;
  static constexpr bool reads_partial = true;

  static constexpr inferred infer(operand_types const& in, attributes const& a) {
    return inferred::one(in[0].type, shape(shard_map{in[0].shape.elements(), a.integer[0]}.stored()))
        .and_also(in[0].type, shape(exchange_elements));
  }
};

/// y = the sum of y over all ranks, added in rank order, in place: y is input 0 and output 0. Output 1 is the exchange
/// buffer.
struct all_reduce {
  static constexpr char const* name = "all_reduce";
  static constexpr unsigned workspace = 0b10;
  static constexpr bool reads_partial = true;

  static constexpr inferred infer(operand_types const& in, attributes const&) {
    return inferred::one(in[0].type, in[0].shape).and_also(in[0].type, shape(exchange_elements));
  }
};

/// The tensors of all ranks of a group, in rank order: x -> [ranks, extents of x]. Attribute 0: number of ranks.
struct gather_ranks {
  static constexpr char const* name = "gather_ranks";

  static constexpr inferred infer(operand_types const& in, attributes const& a) {
    shape all(a.integer[0]);
    for (int k = 0; k < in[0].shape.rank; ++k) all.extent[all.rank++] = in[0].shape.extent[k];
    return inferred::one(in[0].type, all);
  }
};

/// all_reduce for a tensor of a few elements: every rank gathers the tensors of all ranks and adds them in rank order.
/// Output 1 is scratch for the gathered tensors.
struct all_reduce_small {
  static constexpr char const* name = "all_reduce_small";
  static constexpr unsigned workspace = 0b10;
  static constexpr bool reads_partial = true;
  static constexpr std::int64_t maximum_ranks = 1024; // the scratch has room for the tensors of this many ranks

  static constexpr inferred infer(operand_types const& in, attributes const&) {
    return inferred::one(in[0].type, in[0].shape).and_also(in[0].type, shape(maximum_ranks, in[0].shape.elements()));
  }
};

} // namespace constrain::op
