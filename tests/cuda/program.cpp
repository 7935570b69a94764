// The program of a device, which is the CPU's, and the bytes of its plan: nothing of it runs.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/padded.hpp"
#include "cuda/root_mean_squares.hpp"

namespace ct = constrain;
using namespace constrain::test;

namespace {

template <class task, class... policies> void same_program() {
  using cpu = typename ct::trainer<task, policies...>::entries;
  using device = typename ct::trainer<task, policies..., device_policy>::entries;
  CHECK(ct::print(cpu::step_program::final) == ct::print(device::step_program::final));
  CHECK(ct::print(cpu::evaluate_program::final) == ct::print(device::evaluate_program::final));
  CHECK(ct::print(cpu::predict_program::final) == ct::print(device::predict_program::final));
  CHECK(ct::print(cpu::generate_program::final) == ct::print(device::generate_program::final));
}

/// Bytes for the sums of the squares of all gradients, of which one launch takes each chunk of 1024 elements.
template <class trainer> constexpr std::int64_t bytes_of_norm() {
  std::int64_t end = 0;
  auto const& all = trainer::entries::parameters;
  for (int i = 0; i < all.size; ++i) {
    auto const& p = all.parameters[i];
    end = (end + 255) / 256 * 256 + 8 * p.iterations * ((p.shape.elements() + 1023) / 1024);
  }
  return end;
}

template <class trainer, std::int64_t scratch> constexpr bool has_scratch() {
  auto const begin = trainer::memory.peak.count() - scratch;
  // The step parameters are before the scratch memory. cuBLASLt needs a workspace at a multiple of 256 bytes.
  static_assert(trainer::entries::scratch == scratch && begin % 256 == 0);
  static_assert(begin - 256 >= trainer::entries::buffers_end && begin - 512 < trainer::entries::buffers_end);
  return trainer::memory.workspace.count() >= scratch + 256;
}

template <int sequences, class... policies>
using gpt2_124m = ct::trainer<gpt<12, 12, 768, 50257, 1024, sequences>, policies..., device_policy>;
constexpr std::int64_t gemm = 32 << 20;
static_assert(ct::gemm_workspace == gemm);
static_assert(has_scratch<gpt2_124m<16>, gemm>() && has_scratch<gpt2_124m<64, ct::precision::bf16>, gemm>());
static_assert(has_scratch<ct::trainer<small, device_policy>, gemm>());
static_assert(
    has_scratch<ct::trainer<gpt<1, 1, 3, 67, 5, 1>, ct::precision::bf16, ct::optimizer::sgd, device_policy>, gemm>());
// A model of 175 billion parameters, whose norm takes more.
using huge = ct::trainer<gpt<96, 96, 12288, 50257, 2048, 1>, device_policy>;
static_assert(bytes_of_norm<huge>() > huge::parameter_count / 128);
static_assert(has_scratch<huge, bytes_of_norm<huge>()>());
static_assert(bytes_of_norm<gpt2_124m<16>>() < gemm);

} // namespace

TEST_CASE("the program is the CPU's up to its addresses") {
  same_program<small, ct::precision::bf16, ct::accumulate<2>, ct::checkpoint::every<2>>();
  same_program<classifier>();
  same_program<padded<4, 5, true, 19>, ct::optimizer::adafactor>();
  same_program<mlp<12, 20, 7>, ct::optimizer::muon<>>();
  same_program<normed<12, 5, 7>, ct::optimizer::adamw_8bit>();
}
