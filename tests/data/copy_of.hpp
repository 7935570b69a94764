#pragma once

#include <constrain/base/array_view.hpp>

#include <cstdint>
#include <vector>

namespace constrain::test {

/// The integers of an array.
inline std::vector<std::int32_t> copy_of(array_view const& a) {
  auto const all = a.integers();
  return {all.begin(), all.end()};
}

} // namespace constrain::test
