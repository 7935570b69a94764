#pragma once

#include "constrain/train/ranks.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE std::int64_t ranks::sum_of_parts(joint_call call, function_ref<std::int64_t()> take,
                                                                batch const& b) const {
  auto const sum = agreed_sum(*world, call, take, b.corpus);
  if (!same_data) return sum;
  std::string bytes;
  for (auto const& arrays : {b.every_input(), b.every_label()})
    for (std::size_t i = 0; i < arrays.size(); ++i)
      bytes.append(reinterpret_cast<char const*>(arrays[i].bytes().data()), arrays[i].bytes().size());
  agree(*world, call, 0, nullptr, detail::hash_of(bytes));
  return sum / world->size();
}

[[gnu::cold]] CONSTRAIN_INLINE double of_rank_0(communicator& world, double mine) {
  if (world.size() == 1) return mine;
  double all[communicator::maximum_size];
  all[world.rank()] = mine;
  detail::gather(world, all);
  return all[0];
}

[[gnu::cold]] CONSTRAIN_INLINE lowest_of_ranks find_lowest(communicator& world, std::int64_t mine) {
  std::int64_t all[communicator::maximum_size];
  all[world.rank()] = mine;
  if (world.size() > 1) detail::gather(world, all);
  auto const lowest = *std::min_element(all, all + world.size());
  return {lowest, static_cast<int>(std::count(all, all + world.size(), lowest))};
}

} // namespace constrain
