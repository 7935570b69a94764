#pragma once

#include "constrain/fit/record/records.hpp"

#include <string>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The settings of the model and of the library, with the values that the next step of `t` reads.
template <class trainer> [[gnu::noinline, gnu::cold]] std::vector<metric> settings_of(trainer const& t) {
  auto const list = trainer::entries::parameters.view();
  std::vector<metric> values;
  for (int i = 0; i < list.settings_size; ++i) {
    std::string const name(list.name(list.settings[i]));
    values.push_back({name, t.setting(name)});
  }
  return values;
}

} // namespace constrain::detail
