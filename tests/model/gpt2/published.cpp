#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstdint>

namespace ct = constrain;

namespace {

/// Both embeddings; of a block the matrices, 12 width^2, their biases, 9 width, and two norms; and the last norm.
constexpr std::int64_t parameters_of(std::int64_t layers, std::int64_t width) {
  return (50257 + 1024) * width + layers * (12 * width * width + 13 * width) + 2 * width;
}
template <ct::gpt2 m>
constexpr std::int64_t counted =
    ct::trainer<ct::task<m, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 8}>>::parameter_count;

} // namespace

TEST_CASE("sizes of the published GPT-2s") {
  static_assert(parameters_of(12, 768) == 124'439'808 && parameters_of(48, 1600) == 1'557'611'200);
  CHECK(counted<ct::gpt2_small> == parameters_of(12, 768));
  CHECK(counted<ct::gpt2_medium> == parameters_of(24, 1024));
  CHECK(counted<ct::gpt2_large> == parameters_of(36, 1280));
  CHECK(counted<ct::gpt2_xl> == parameters_of(48, 1600));
}
