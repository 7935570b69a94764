#pragma once

#include "constrain/train/schedule.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::schedule {

[[gnu::cold]] CONSTRAIN_INLINE double any::operator()(optimizer_steps step) const {
  if (!call_) throw error("run_options: .schedule is an empty function; give a function that can be called");
  double const factor = call_(function_.get(), step);
  if (!constrain::detail::is_within(factor, number_range::from_zero))
    throw error({"run_options: .schedule returns ", constrain::detail::number_text(factor), " for step ", step.count(),
                 "; return a finite number of at least 0"});
  return factor;
}

[[gnu::cold]] CONSTRAIN_INLINE void any::check() const {
  auto const owner = concat({"schedule::", name_});
  for (auto const& f : fields_)
    if (f.least < 0) check_number(owner.c_str(), f.name, f.value, f.range);
    else check_count(owner.c_str(), f.name, f.count, f.least);
  auto const* const conflict = conflict_ == nullptr ? nullptr : conflict_(function_.get());
  if (conflict != nullptr) throw error({owner, ": ", conflict});
  (*this)(0);
}

} // namespace constrain::schedule
