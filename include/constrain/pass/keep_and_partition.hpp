#pragma once

#include "constrain/pass/keep_copies.hpp"
#include "constrain/pass/partition.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// `keep_copies` for a set of policies. Updates themselves write the compute copies of their parameters, but not on a
/// CUDA device, because one launch updates all parameters, with and without copies, and not with ZeRO's stages 1 and 2,
/// because an update then works on one rank's shard of a parameter, but every rank holds the full copy.
constexpr program keep_copies_for(program const& p, slot_of::parallelism const& parallelism, bool is_cuda) {
  return keep_copies(p, !is_cuda && (parallelism.shards == 1 || parallelism.stage == 3));
}

/// The program `p` before compute copies are kept, with kept copies if `may_keep` and `can_keep_copies(p)`, partitioned
/// over ranks as `of_entry` says: `parallelism` or, without gradients, `without_gradients(parallelism)`.
constexpr program keep_and_partition(program const& p, bool may_keep, slot_of::parallelism const& parallelism,
                                     bool is_cuda, slot_of::parallelism const& of_entry) {
  bool const keeps = may_keep && can_keep_copies(p);
  return keeps ? partition(keep_copies_for(p, parallelism, is_cuda), of_entry) : partition(p, of_entry);
}

} // namespace constrain::detail
