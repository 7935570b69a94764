#pragma once

#include "constrain/op/collective/collective.hpp"
#include "constrain/policy/rule.hpp"

#include <cstdint>

/// Training in several processes. With data parallelism, each process trains on a different part of each batch, and
/// gradients are summed over the processes. With tensor parallelism, several processes train on the same batches, and
/// each computes a part of the layers that can be divided. A parallel policy is a policy of this namespace other than
/// `none`. Parallel policies need MPI. On CUDA devices, they also need NCCL; several tensor ranks are refused there.
namespace constrain::inline CONSTRAIN_VARIANT::parallel {

struct none;
struct ddp;
template <int stage, int ranks> struct zero;
template <int ranks> struct tensor;
template <class data, class layers> struct mesh;

} // namespace constrain::parallel

namespace constrain::inline CONSTRAIN_VARIANT::slot_of {

/// The slot of parallelism; is_slot.hpp explains the members of a slot.
struct parallelism {
  bool distributed = false; // whether several processes can train together
  bool same_data = false;   // whether all processes train on the same data
  int stage = 3;            // the stage of ZeRO: 1, 2 or 3; no effect if `shards` is 1
  int shards = 1;           // number of processes over which tensors are sharded; 1: not sharded
  int tensor = 1;           // number of processes over which layers are divided; 1: not divided
  bool combines = true;     // whether the policies of a mesh can be combined
#if defined(CONSTRAIN_WITH_MPI)
  bool has_mpi = true; // whether the program is compiled with MPI
#else
  bool has_mpi = false;  // whether the program is compiled with MPI
#endif
#if defined(CONSTRAIN_WITH_NCCL)
  bool has_nccl = true; // whether the program is compiled with NCCL
#else
  bool has_nccl = false; // whether the program is compiled with NCCL
#endif
  friend constexpr bool operator==(parallelism const&, parallelism const&) = default;

  template <class...> using otherwise = parallel::none;
  template <class policy> struct named { using parallelism = policy; };
  using examples =
      policy_list<parallel::none, parallel::ddp, parallel::zero<1, 2>, parallel::zero<2, 2>, parallel::zero<3, 2>,
                  parallel::tensor<2>, parallel::mesh<parallel::ddp, parallel::tensor<2>>>;
  using refused = policy_list<parallel::zero<4, 2>, parallel::zero<3, 0>, parallel::tensor<0>,
                              parallel::mesh<parallel::tensor<2>, parallel::ddp>, parallel::zero<3, 1025>>;
  static constexpr bool free_on_resume = true;

  CONSTRAIN_RULE(one_parallelism, (said<parallelism> const& p), p.given <= 1,
                 "policies: more than one policy parallel::... is given; keep one, or combine two, as in "
                 "parallel::mesh<parallel::ddp, parallel::tensor<2>>");
  CONSTRAIN_RULE(known_stage, (parallelism const& p), 1 <= p.stage && p.stage <= 3,
                 "parallel::zero<stage, ranks>: `stage` must be 1, 2 or 3; write for example parallel::zero<3, ranks>, "
                 "or parallel::ddp");
  CONSTRAIN_RULE(some_shards, (parallelism const& p), p.shards >= 1,
                 "parallel::zero<stage, ranks>: `ranks` must be at least 1; write for example parallel::zero<3, 2>, or "
                 "parallel::ddp");
  CONSTRAIN_RULE(some_tensor_ranks, (parallelism const& p), p.tensor >= 1,
                 "parallel::tensor<ranks>: `ranks` must be at least 1; write for example parallel::tensor<2>, or "
                 "parallel::none");
  CONSTRAIN_RULE(
      not_too_many_ranks, (parallelism const& p),
      std::int64_t(p.shards) * p.tensor <= op::all_reduce_small::maximum_ranks,
      "parallel::zero<stage, ranks>, parallel::tensor<ranks>: `ranks`, or the product of both in parallel::mesh, is "
      "above 1024, the most processes of a job; write at most 1024 ranks");
  CONSTRAIN_RULE(data_and_layers, (parallelism const& p), p.combines,
                 "parallel::mesh<data, layers>: `data` must be parallel::ddp or parallel::zero<stage, ranks>, and "
                 "`layers` must be parallel::tensor<ranks>; write for example parallel::mesh<parallel::ddp, "
                 "parallel::tensor<2>>");
  CONSTRAIN_RULE(mpi_is_compiled, (parallelism const& p), !p.distributed || p.has_mpi,
                 "parallel: training in several processes needs MPI, but this program is compiled without MPI; install "
                 "libopenmpi-dev and link constrain::mpi");
  using rules = rule_list<one_parallelism, known_stage, some_shards, some_tensor_ranks, not_too_many_ranks,
                          data_and_layers, mpi_is_compiled>;
};

} // namespace constrain::slot_of

namespace constrain::inline CONSTRAIN_VARIANT::parallel {

/// Training in one process.
struct none {
  using slot = slot_of::parallelism;
  static constexpr slot value{};
};

/// Distributed data parallelism (Li et al. 2020), like PyTorch's DDP. Every process holds all parameters, gradients and
/// optimizer states. Works with any number of processes up to `communicator::maximum_size`.
struct ddp {
  using slot = slot_of::parallelism;
  static constexpr slot value{.distributed = true};
};

/// ZeRO (Rajbhandari et al. 2020): tensors are sharded over groups of `ranks` processes. `stage` is 1, 2 or 3. The
/// number of processes is any multiple of `ranks` up to `communicator::maximum_size`; every group holds one full set of
/// shards. Each stage also shards what the earlier stages shard:
///
/// 1. Optimizer states, except averages (optimizer::averaged) of parameters that are not sharded. Gradients are reduced
///    once per batch, after the last micro-batch.
/// 2. Gradients. Each is reduce-scattered as soon as a micro-batch has computed it.
/// 3. Parameters, as in PyTorch's FSDP. Each is all-gathered just before its use, and the memory of the full parameter
///    is free for other values afterwards.
///
/// In mixed precision, all stages shard the master weights; stages 1 and 2 keep the full compute copies.
template <int stage, int ranks> struct zero {
  using slot = slot_of::parallelism;
  static constexpr slot value{.distributed = true, .stage = stage, .shards = ranks};
};

/// Tensor parallelism (Shoeybi et al. 2019, Megatron-LM): `ranks` processes train on the same batches, and each
/// computes a part of every divided layer. Two linear layers with element-wise ops (but no dropout) or attention
/// between them are divided together: each process computes a range of the first layer's features, or some of the
/// heads. The second layer sums over these features, and the sums of all processes are added. Each process also has a
/// range of the rows of a token embedding, and of the classes of the output layer. The weights of divided layers and
/// embeddings are divided too, with their gradients and optimizer states; every process holds all other tensors. A
/// layer other than the output layer is not divided if `ranks` does not divide the number of its features, heads or
/// key-value heads. All conditions, also for embeddings and the output layer, are in pass/divide.hpp. The number of
/// processes is `ranks`, at most `communicator::maximum_size`. Refused at compile time: attention with fewer heads than
/// ranks, unless something else prevents its division (for example, rotary embeddings), a model without a layer or
/// vocabulary that can be divided, an optimizer that does not update divided tensors element by element, a pass of a
/// policy with an op that needs a divided tensor in full, and, for `ranks` above 1, CUDA devices.
template <int ranks> struct tensor {
  using slot = slot_of::parallelism;
  static constexpr slot value{.distributed = true, .same_data = true, .tensor = ranks};
};

/// Data parallelism and tensor parallelism together: `data` is ddp or zero<stage, ranks>, and `layers` is
/// tensor<ranks>. Consecutive processes form a tensor group: they divide the layers of one model, and train on the same
/// batches. The groups train on different data, as single processes do without `layers`. The number of processes is a
/// multiple of the ranks of `layers`; with zero<stage, ranks>, a multiple of the product of both numbers of ranks. In
/// both cases, it is at most `communicator::maximum_size`.
template <class data, class layers> struct mesh {
  using slot = slot_of::parallelism;
  static constexpr slot value = [] {
    slot combined{.combines = false};
    if constexpr (requires(slot s) { s = data::value, s = layers::value; }) {
      combined = data::value;
      combined.tensor = layers::value.tensor;
      combined.combines =
          data::value.distributed && !data::value.same_data && data::value.tensor == 1 && layers::value.same_data;
    }
    return combined;
  }();
};

} // namespace constrain::parallel
