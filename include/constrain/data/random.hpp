#pragma once

#include "constrain/data/corpus.hpp"
#include "constrain/data/examples.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// A corpus of `count` uniformly random tokens below `vocabulary`, for benchmarks. The corpus's `vocabulary()` is the
/// largest token drawn + 1. Equal arguments give the same tokens on every machine. Throws `error` unless `count` >= 1,
/// the corpus fits into this machine's physical memory and 1 <= `vocabulary` <= 65536.
corpus random_tokens(std::int64_t count, std::int32_t vocabulary, std::uint64_t seed = 0);

/// Options of `random_examples`.
struct random_examples_options {
  std::int64_t count = 0;       // number of examples, at least 1
  std::int64_t length = 0;      // tokens of each example, from 1 to 2147483647
  std::int32_t first_token = 0; // smallest token, at least 0
  std::int32_t vocabulary = 0;  // tokens are below this value, which must be above `first_token`
  std::int32_t classes = 2;     // number of classes, at least 1; labels are below this value
  bool types = false;           // whether there is a further input with a token type for each token, always 0
  bool lengths = false;         // whether there is a further input with the length of each example, always `length`
  std::uint64_t seed = 0;       // seed of the draws
};

/// Examples of uniformly random tokens with uniformly random classes as labels, for benchmarks. The inputs are tokens
/// [count, length] and, if asked for, types [count, length] and lengths [count]; the labels are classes [count]. Equal
/// options give the same examples on every machine. Throws `error` for an option out of range, or if the examples
/// exceed this machine's physical memory.
examples random_examples(random_examples_options const& options);

} // namespace constrain::data

#if CONSTRAIN_DEFINITIONS
#include "constrain/data/random.ipp"
#endif
