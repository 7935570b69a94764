#include "adamw_pass.hpp"

#include <constrain/device/cpu/parallel.hpp>

#include <cmath>

namespace constrain::bench {

void adamw_pass(std::int64_t count, std::int64_t step, float const* g, float* w, float* m, float* v) {
  float const rate = 1e-5f, beta1 = 0.9f, beta2 = 0.999f, keep = 1 - rate * 0.1f;
  auto const step_size = rate / (1 - std::pow(beta1, static_cast<float>(step)));
  auto const correction = 1 / std::sqrt(1 - std::pow(beta2, static_cast<float>(step)));
  parallel_chunks(count, 16384, [=](std::int64_t begin, std::int64_t end) {
    CONSTRAIN_SIMD
    for (std::int64_t i = begin; i < end; ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
      w[i] = keep * w[i] - step_size * m[i] / (std::sqrt(v[i]) * correction + 1e-8f);
    }
  });
}

} // namespace constrain::bench
