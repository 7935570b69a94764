#pragma once

#include <cstdint>

namespace constrain::bench {

/// One AdamW update of `count` weights, as one would write it by hand for this machine. It has a file of its own,
/// compiled without errno for mathematics, so that the square root becomes a vector instruction whatever the library's
/// kernels are compiled with.
void adamw_pass(std::int64_t count, std::int64_t step, float const* gradient, float* weight, float* momentum,
                float* variance);

} // namespace constrain::bench
