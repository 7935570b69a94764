// The program of a device beside the CPU's: nothing of it runs.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"

namespace ct = constrain;
using namespace constrain::test;

namespace {

template <class task, class... policies> void same_program() {
  // What differs from the CPU's program before `place`: attention, for which the CPU has a tiled op, and what is fused
  // there. Nothing else.
  using cpu = typename ct::trainer<task, policies..., ct::attention::reference, ct::fusion::none>::entries;
  using device = typename ct::trainer<task, policies..., device_policy>::entries;
  CHECK(ct::print(cpu::step_program::final) == ct::print(device::step_program::final));
  CHECK(ct::print(cpu::evaluate_program::final) == ct::print(device::evaluate_program::final));
  CHECK(ct::print(cpu::predict_program::final) == ct::print(device::predict_program::final));
  CHECK(ct::print(cpu::generate_program::final) == ct::print(device::generate_program::final));
}

} // namespace

TEST_CASE("the program is the CPU's up to its addresses") {
  same_program<small, ct::precision::bf16, ct::accumulate<2>, ct::checkpoint::every<2>>();
  same_program<classifier>();
}
