#pragma once

#include "sanitizers.hpp"

#include <cstddef>
#include <cstdint>

namespace on_host {

/// Where threads of a block meet: each waits until all that take part have come.
struct meeting {
  std::size_t arrived = 0;
  std::uint64_t times = 0;  // that all have come
  std::int64_t clocks[2]{}; // for ThreadSanitizer, in turn: a slow thread does not learn what the quick ones do next
};

/// The meeting for which a paused thread waits; null: none.
struct waiting {
  meeting const* at = nullptr;
  std::uint64_t times = 0;

  bool over() const { return at == nullptr || at->times != times; }
};

} // namespace on_host
