#pragma once

#include <cstdint>

namespace constrain::bench {

/// One AdamW update of `count` weights, written by hand. Its file is compiled with -fno-math-errno, so that the square
/// root is a vector instruction, independent of the flags of the library's kernels.
void adamw_pass(std::int64_t count, std::int64_t step, float const* gradient, float* weight, float* momentum,
                float* variance);

} // namespace constrain::bench
