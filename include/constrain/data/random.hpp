#pragma once

#include "constrain/data/corpus.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// A corpus of `count` uniformly random tokens below `vocabulary`, for benchmarks. The corpus's `vocabulary()` is the
/// largest token drawn + 1. Equal arguments give the same tokens on every machine. Throws `error` unless `count` >= 1,
/// the corpus fits into this machine's physical memory and 1 <= `vocabulary` <= 65536.
corpus random_tokens(std::int64_t count, std::int32_t vocabulary, std::uint64_t seed = 0);

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/random.ipp"
#endif
