#pragma once

#include "constrain/train/sample_set.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE bool sample_set::has_labels() const {
  for (std::int64_t i = 0; i < size(); ++i)
    if (labels(i) > 0) return true;
  return false;
}

[[gnu::cold]] CONSTRAIN_INLINE bool sample_set::every_sample_has_a_label() const {
  for (std::int64_t i = 0; i < size(); ++i)
    if (labels(i) == 0) return false;
  return true;
}

} // namespace constrain
