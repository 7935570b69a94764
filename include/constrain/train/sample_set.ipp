#pragma once

#include "constrain/train/sample_set.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE bool sample_set::has_labels() const {
  for (std::int64_t i = 0; i < size(); ++i)
    if (labels(i) > 0) return true;
  return false;
}

[[gnu::cold]] CONSTRAIN_INLINE std::vector<bool> sample_set::samples_with_labels() const {
  std::vector<bool> result(static_cast<std::size_t>(size()));
  for (std::int64_t i = 0; i < size(); ++i) result[static_cast<std::size_t>(i)] = labels(i) > 0;
  return result;
}

} // namespace constrain
