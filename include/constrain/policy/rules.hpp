#pragma once

#include "constrain/policy/slots.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

// Rules between slots: which values of different slots exclude one another. A rule about one slot is a member of the
// slot.

CONSTRAIN_RULE(graph_on_cuda, (slot_of::launching const& l, slot_of::device const& d), !l.captures || d.is_cuda,
               "launch::graph: only a CUDA device captures graphs; add device::cuda<sm<90>>, or write launch::eager");
CONSTRAIN_RULE(cuda_in_one_process, (slot_of::device const& d, slot_of::parallelism const& p),
               !d.is_cuda || !p.distributed,
               "parallel: training in several processes does not support CUDA devices yet; write device::cpu, or "
               "leave the parallel policy out");

/// The rules between slots, in the order in which they are checked.
using rules_between_slots = rule_list<graph_on_cuda, cuda_in_one_process>;

} // namespace constrain
