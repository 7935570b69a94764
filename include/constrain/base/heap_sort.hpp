#pragma once

#include "constrain/base/function_ref.hpp"

#include <algorithm>
#include <type_traits>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Sorts `values` in place; `before(a, b)`: whether a comes before b. Not stable. The algorithm is heap sort, because
/// std::sort compiles to three times as much code. `before` is type-erased, so that there is one instantiation for each
/// `value`.
template <class value>
[[gnu::noinline]] void heap_sort(std::vector<value>& values,
                                 std::type_identity_t<function_ref<bool(value const&, value const&)>> before) {
  auto const begin = values.data(), end = begin + values.size();
  std::make_heap(begin, end, before);
  std::sort_heap(begin, end, before);
}

} // namespace constrain::detail
