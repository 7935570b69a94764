#pragma once

#include <constrain/constrain.hpp>

namespace constrain::test {

/// `rate` if the trainer's model has ct::dropout; otherwise 0, which such a model needs.
template <class trainer> constexpr double dropout_if_any(double rate) {
  constexpr auto const& step = trainer::entries::step::final;
  for (auto const& info : step.values)
    if (info.role == role::setting && step.text(info.name) == detail::dropout_setting.name) return rate;
  return 0;
}

} // namespace constrain::test
