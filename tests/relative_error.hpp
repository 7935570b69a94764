#pragma once

#include <cmath>
#include <vector>

namespace constrain::test {

/// |got - expected| / |expected| in the 2-norm; the absolute norm where nothing is expected. NaN where sizes differ or
/// something is not finite, so that no comparison holds.
template <class real> double relative_error(std::vector<real> const& got, std::vector<double> const& expected) {
  if (got.size() != expected.size()) return std::nan("");
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    double const d = static_cast<double>(got[i]) - expected[i];
    difference += d * d;
    norm += expected[i] * expected[i];
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

} // namespace constrain::test
