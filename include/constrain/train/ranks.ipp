#pragma once

#include "constrain/comm/fingerprint.hpp"
#include "constrain/train/ranks.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE void detail::form_groups(ranks& r, slot_of::parallelism const& p,
                                                        std::string const& policies) {
  // The number of collective calls below depends on the policies.
  fingerprint values;
  values.add("the set of policies", policies);
  check_ranks_agree(*r.world, joint_call::construction, values);
  auto const size = r.world->size();
  auto const holders = std::int64_t{p.shards} * p.tensor; // can exceed 32 bits
  if (p.same_data && size != p.tensor)
    throw error({"parallel::tensor divides layers over ", counted(p.tensor, "rank"), ", but the job has ", size,
                 "; start ", counted(p.tensor, "rank"), ", or write parallel::mesh and start a multiple of ",
                 counted(p.tensor, "rank")});
  if (size % holders != 0)
    throw error({p.tensor > 1 ? "parallel::mesh" : "parallel::zero", " divides tensors over groups of ", holders,
                 " ranks, but the job has ", size, "; start a multiple of ", holders, " ranks"});
  r.storage_group = r.world->groups_of(static_cast<int>(holders));
  if (p.tensor == 1) return;
  r.tensor = r.world->groups_of(p.tensor);
  r.data_group = r.world->strided_groups(p.tensor);
  r.zero_group = r.data_group->groups_of(p.shards);
}

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t ranks::count_valid_labels(joint_call call,
                                                                      function_ref<std::int64_t()> copy_in,
                                                                      batch const& b) const {
  // The range of `trainer::batches` counts the samples of all ranks, so ranks with parts of one batch have equal
  // positions.
  std::uint64_t const end[] = {b.corpus, static_cast<std::uint64_t>(b.next.epoch),
                               static_cast<std::uint64_t>(b.next.sample)};
  auto const sum = agreed_sum(*world, call, copy_in, detail::hash_of({reinterpret_cast<char const*>(end), sizeof end}));
  check_equal(call, b.every_input(), b.every_label());
  return sum / tensor->size();
}

[[gnu::cold]] CONSTRAIN_INLINE void ranks::run_passes(joint_call call, function_ref<void(agreement&)> work) const {
  auto& group = storage_group->size() == 1 ? *storage_group : *world;
  run_or_end_job(group, call, [&] { agreement(group, call).run(work); });
}

[[gnu::cold]] CONSTRAIN_INLINE void ranks::check_same_work(agreement& all, joint_call call, std::int64_t passes,
                                                           array_list const& inputs, array_list const& labels) const {
  all.all_can(static_cast<std::uint64_t>(passes));
  check_equal(call, inputs, labels);
}

[[gnu::cold]] CONSTRAIN_INLINE void ranks::check_same_work(agreement& all, joint_call call, std::int64_t passes,
                                                           std::uint64_t fingerprint) const {
  all.all_can(static_cast<std::uint64_t>(passes));
  check_equal(call, fingerprint);
}

[[gnu::cold]] CONSTRAIN_INLINE void ranks::check_equal(joint_call call, array_list const& inputs,
                                                       array_list const& labels) const {
  if (tensor->size() == 1) return;
  std::string bytes;
  for (auto const* arrays : {&inputs, &labels})
    for (std::size_t i = 0; i < arrays->size(); ++i)
      bytes.append(reinterpret_cast<char const*>((*arrays)[i].bytes().data()), (*arrays)[i].bytes().size());
  check_equal(call, detail::hash_of(bytes));
}

[[gnu::cold]] CONSTRAIN_INLINE void ranks::check_equal(joint_call call, std::uint64_t hash) const {
  if (tensor->size() == 1) return;
  // `agree` would compare the hashes of all ranks, but different tensor groups may have different data.
  std::uint64_t hashes[communicator::maximum_size];
  hashes[tensor->rank()] = hash;
  detail::all_gather_values(*tensor, hashes);
  bool equal = true;
  for (int k = 1; k < tensor->size(); ++k) equal = equal && hashes[k] == hashes[0];
  agreed(*world, call, [&] {
    if (equal) return;
    throw error({name_of(call), ": the ranks of a tensor group have different data",
                 call == joint_call::generate ? " or options; give them the same prompt and the same options"
                                              : "; give them equal arrays or the same data set"});
  });
}

[[gnu::cold]] CONSTRAIN_INLINE double broadcast_from_rank_0(communicator& world, double value) {
  if (world.size() == 1) return value;
  double values[communicator::maximum_size];
  values[world.rank()] = value;
  detail::all_gather_values(world, values);
  return values[0];
}

[[gnu::cold]] CONSTRAIN_INLINE lowest_of_ranks find_lowest(communicator& world, std::int64_t value) {
  std::int64_t values[communicator::maximum_size];
  values[world.rank()] = value;
  if (world.size() > 1) detail::all_gather_values(world, values);
  auto const lowest = *std::min_element(values, values + world.size());
  return {lowest, static_cast<int>(std::count(values, values + world.size(), lowest))};
}

} // namespace constrain
