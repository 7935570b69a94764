// The packs of the kernels for position embeddings, whose launches the stand-in counts.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/probe.cuh"

#include <cstdint>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

TEST_CASE("the gradient of a sequence of 12 narrow elements takes packs of 4") {
  using packs = ct::position_embedding_gradient_packs<4, ct::bfloat16, float>;
  constexpr std::int64_t sequences = 2, tokens = 3, width = 4, rows = 5;
  std::vector<ct::bfloat16> dy;
  std::vector<float> sums(rows * width);
  for (std::int64_t i = 0; i < sequences * tokens * width; ++i) {
    dy.push_back(ct::bfloat16(static_cast<float>(i)));
    sums[static_cast<std::size_t>(i % (tokens * width))] += static_cast<float>(i);
  }
  shape const of_dy(sequences, tokens, width), of_table(rows, width);
  probe p;
  auto* const dtable = p.room<float>(rows * width);
  on_host::launches.clear();
  p.call_kernel<ct::op::position_embedding_gradient>(
      ct::tensor<ct::bfloat16 const>{p.to_device(dy), &of_dy, sequences * tokens * width},
      ct::tensor<float>{dtable, &of_table, rows * width});
  CHECK(p.from_device(dtable, rows * width) == sums);
  CHECK(on_host::launches[on_host::address(&ct::elements_kernel<packs>)] == 1);
}
