#pragma once

#include "constrain/train/ranks.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

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
