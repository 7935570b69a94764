#pragma once

#include <cstdint>

namespace constrain::bench {

/// A hand-written AdamW update of `count` weights. adamw_pass.cpp is always compiled with -fno-math-errno, so that the
/// square roots are vectorized.
void adamw_pass(std::int64_t count, std::int64_t step, float const* gradient, float* weight, float* momentum,
                float* variance);

} // namespace constrain::bench
