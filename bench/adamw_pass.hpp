#pragma once

#include <cstdint>

namespace constrain::bench {

/// A hand-written AdamW update of `count` weights. Regardless of the flags of the library's kernels, adamw_pass.cpp is
/// compiled with -fno-math-errno, so that the square root is a vector instruction.
void adamw_pass(std::int64_t count, std::int64_t step, float const* gradient, float* weight, float* momentum,
                float* variance);

} // namespace constrain::bench
