#pragma once

#include "constrain/policy/slots.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

// Rules between slots, for values of different slots that cannot be combined. A rule about one slot is a member of that
// slot.

CONSTRAIN_RULE(graph_on_cuda, (slot_of::launching const& l, slot_of::device const& d), !l.captures || d.is_cuda,
               "launch::graph: only a CUDA device captures graphs; write device::cuda<sm<90>> or launch::eager");
CONSTRAIN_RULE(nccl_is_compiled, (slot_of::device const& d, slot_of::parallelism const& p),
               !d.is_cuda || !p.distributed || p.has_nccl,
               "parallel: on a CUDA device, every policy but parallel::none needs NCCL, even with one process, but "
               "this program is compiled without NCCL; install libnccl-dev and link constrain::nccl, or write "
               "parallel::none or device::cpu");
CONSTRAIN_RULE(undivided_layers_on_cuda, (slot_of::device const& d, slot_of::parallelism const& p),
               !d.is_cuda || p.tensor <= 1,
               "parallel::tensor: layers that are divided over ranks have no CUDA kernels yet; write parallel::ddp or "
               "parallel::zero<stage, ranks>, or device::cpu");
CONSTRAIN_RULE(one_backward_pass, (slot_of::optimizer const& o, slot_of::accumulation const& a),
               !o.in_backward || a.micro_batches <= 1,
               "optimizer::in_backward: with accumulate<N>, gradients are complete only after the last micro-batch; "
               "write accumulate<1>, or the optimizer without in_backward");
CONSTRAIN_RULE(in_backward_without_loss_scale, (slot_of::optimizer const& o, slot_of::precision const& p),
               !o.in_backward || !p.loss_scale,
               "optimizer::in_backward: precision::fp16 skips the whole step if a gradient is not finite, which is "
               "known only after the backward pass; write precision::bf16, or the optimizer without in_backward");
CONSTRAIN_RULE(in_backward_without_shards, (slot_of::optimizer const& o, slot_of::parallelism const& p),
               !o.in_backward || p.shards <= 1,
               "optimizer::in_backward: parallel::zero does not support it yet; write parallel::ddp, or the optimizer "
               "without in_backward");

/// The rules between slots, in the order in which they are checked.
using rules_between_slots = rule_list<graph_on_cuda, nccl_is_compiled, undivided_layers_on_cuda, one_backward_pass,
                                      in_backward_without_loss_scale, in_backward_without_shards>;

} // namespace constrain
