#pragma once

#include "constrain/base/variant.hpp"
#include "constrain/device/random.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The random bits of one node, or of the stochastic rounding of one parameter, in one iteration of one optimizer step.
/// The bits of an element depend only on the fields of this struct and on the two integers that `draw` takes for the
/// element, so recomputation, gradient accumulation, sharding, threads and resuming do not change the bits. There are
/// two exceptions. Gradient accumulation and the number of ranks change the dropout of a tensor whose dimension 0 is
/// not the samples of the batch. And tensor parallelism changes the stochastic rounding of a parameter that it divides,
/// because `draw` then takes an index in the concatenation of the ranks' ranges instead of the index in the full
/// tensor.
struct random_stream {
  std::uint64_t seed = 0;      // seed of the training run
  std::int64_t step = 0;       // number of earlier optimizer steps, including skipped ones
  int random_key = 0;          // random key of the node or, for stochastic rounding, of the parameter
  std::uint64_t iteration = 0; // index of the current iteration of the enclosing loops, without the micro-batch loop

  /// Four random words, selected by two integers. Only the lower 32 bits of `sample`, `quad` and `step` count, and only
  /// the lower 24 bits of `random_key`. `iteration` must be less than 2^40. In dropout, the words are for the elements
  /// 4 * quad to 4 * quad + 3 of sample `sample` of the global batch; in stochastic rounding, `sample` and `quad` are
  /// the upper and the lower half of one index.
  CT_HOST_DEVICE constexpr philox_block draw(std::int64_t sample, std::int64_t quad) const {
    return philox(counter(sample, quad), key());
  }
  /// The counter of the draw, the first argument of `philox`.
  CT_HOST_DEVICE constexpr philox_counter counter(std::int64_t sample, std::int64_t quad) const {
    return {{low(quad), low(sample), low(step), low(key_and_iteration())}};
  }
  /// The key of all draws, the second argument of `philox`.
  CT_HOST_DEVICE constexpr philox_key key() const {
    return {{low(seed), low(seed >> 32) ^ low(key_and_iteration() >> 32)}};
  }

private:
  CT_HOST_DEVICE static constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
  CT_HOST_DEVICE constexpr std::uint64_t key_and_iteration() const {
    return static_cast<std::uint64_t>(random_key) << 40 ^ iteration;
  }
};

} // namespace constrain
