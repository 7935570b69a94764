#pragma once

#include "constrain/policy/accumulate.hpp"
#include "constrain/policy/attention.hpp"
#include "constrain/policy/checkpoint.hpp"
#include "constrain/policy/device.hpp"
#include "constrain/policy/freeze.hpp"
#include "constrain/policy/fusion.hpp"
#include "constrain/policy/launch.hpp"
#include "constrain/policy/optimizer/optimizer.hpp"
#include "constrain/policy/parallel.hpp"
#include "constrain/policy/precision.hpp"
#include "constrain/policy/slot_list.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The library's slots, in the order in which the name of a composition lists their policies. The values, rules and
/// names of compositions, docs/compatibility.md and the compositions in tests/policy/rules.cpp are generated from this
/// list; tests/policy/combinations.cpp and tests/comm/pairs.hpp list slots and policies themselves.
using library_slots = slot_list<slot_of::unknown, slot_of::precision, slot_of::optimizer, slot_of::accumulation,
                                slot_of::checkpointing, slot_of::parallelism, slot_of::device, slot_of::attention,
                                slot_of::fusion, slot_of::launching, slot_of::freezing>;

} // namespace constrain
