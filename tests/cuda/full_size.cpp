// Every launch, copy and GEMM of full sizes: the contracts are checked, and nothing runs.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"

#include <cstdint>

namespace ct = constrain;
using namespace constrain::test;

namespace {

/// Checks the calls of all entries, which run twice: the second time from a graph.
template <class trainer> void calls_are_legal() {
  CAPTURE(trainer::policy_set::name());
  using entries = typename trainer::entries;
  on_host::dry = true;
  on_host::reductions_allowed = CUBLASLT_REDUCTION_SCHEME_MASK;
  {
    ct::runner<target, true> runner(trainer::memory.peak, entries::scratch);
    ct::step_parameters parameters;
    if constexpr (entries::keeps_copies) runner.template run<typename entries::casts>(parameters);
    auto const launches = on_host::all_launches();
    runner.template run<typename entries::step>(parameters);
    CHECK(on_host::all_launches() - launches == trainer::kernel_launches);
    runner.template run<typename entries::step>(parameters);
    CHECK(on_host::all_launches() - launches == 2 * trainer::kernel_launches);
    for (int i = 0; i < 2; ++i) {
      runner.template run<typename entries::evaluate>(parameters);
      runner.template run<typename entries::predict>(parameters);
      runner.template run<typename entries::generate>(parameters);
    }
  }
  on_host::dry = false;
  CHECK((on_host::reductions_allowed & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) == 0);
  CHECK(on_host::still_alive() == "");
}

} // namespace

// With 64 x 1024 tokens, the logits have more than 2^31 elements: the GEMMs of the head are made in parts.
TEST_CASE("GPT-2 124M") {
  calls_are_legal<ct::trainer<gpt<12, 12, 768, 50257, 1024, 64>, ct::precision::bf16, device_policy>>();
  calls_are_legal<ct::trainer<gpt<12, 12, 768, 50304, 1024, 64>, ct::precision::bf16, device_policy>>();
  using sixteen = ct::trainer<gpt<12, 12, 768, 50304, 1024, 16>, ct::precision::bf16, device_policy>;
  static_assert(sixteen::memory.peak.count() <= 8'000'000'000 && sixteen::kernel_launches <= 420);
  calls_are_legal<sixteen>();
  calls_are_legal<
      ct::trainer<gpt<12, 12, 768, 50257, 1024, 16>, ct::accumulate<4>, ct::checkpoint::every<2>, device_policy>>();
}

TEST_CASE("the example of docs/on-a-gpu.md") {
  calls_are_legal<ct::trainer<gpt<2, 2, 16, 256, 16, 2>, ct::precision::bf16, device_policy, ct::launch::graph>>();
}

// A grid has at most 65535 blocks along y and z, and these are 65600 heads.
TEST_CASE("more heads than a grid has blocks along z") {
  calls_are_legal<ct::trainer<gpt<1, 16, 16, 67, 2, 4100>, device_policy>>();
}
