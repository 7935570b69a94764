// The program of a device, which is nearly the CPU's, and the bytes of its plan: nothing of it runs.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/padded.hpp"
#include "cuda/root_mean_squares.hpp"

namespace ct = constrain;
using namespace constrain::test;

// Casts between the 16-bit types, which a model in one of them can make.
using cast_kernel = constrain::kernel<constrain::op::cast, constrain::cuda<constrain::sm<90>>>;
template void cast_kernel::run(constrain::call const&, constrain::tensor<constrain::bfloat16 const>,
                               constrain::tensor<constrain::float16>);
template void cast_kernel::run(constrain::call const&, constrain::tensor<constrain::float16 const>,
                               constrain::tensor<constrain::bfloat16>);

namespace {

template <class task, class... policies> void same_program() {
  using cpu = typename ct::trainer<task, policies...>::entries;
  using device = typename ct::trainer<task, policies..., device_policy>::entries;
  CHECK(ct::print(cpu::step_program::fused) == ct::print(device::step_program::fused));
  CHECK(ct::print(cpu::evaluate_program::final) == ct::print(device::evaluate_program::final));
  CHECK(ct::print(cpu::predict_program::final) == ct::print(device::predict_program::final));
  CHECK(ct::print(cpu::generate_program::final) == ct::print(device::generate_program::final));
}

/// The number of calls to an op.
int calls_of(ct::program const& p, ct::op_info const& op) {
  int count = 0;
  for (auto const& n : p.nodes) count += ct::calls(n, op) ? 1 : 0;
  return count;
}
/// The number of vectors that the program casts.
int cast_vectors(ct::program const& p) {
  int count = 0;
  for (auto const& n : p.nodes)
    count += ct::calls(n, ct::info_of<ct::op::cast>) && p.values[n.inputs[0].value].shape.rank == 1 ? 1 : 0;
  return count;
}

/// The number of linear layers that read a bias of 16 bits.
int narrow_biases(ct::program const& p) {
  int count = 0;
  for (auto const& n : p.nodes)
    if (ct::calls(n, ct::info_of<ct::op::linear>) && n.inputs.size() == 3)
      count += ct::is_narrow(p.values[n.inputs[2].value].type) ? 1 : 0;
  return count;
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

template <class task> using on_h200 = ct::trainer<task, ct::precision::bf16, ct::device::cuda<ct::sm<90>>>;
template <class task>
constexpr double seconds_of_step = ct::estimated_seconds(on_h200<task>::entries::step_program::final,
                                                         ct::rates_of<ct::cuda<ct::sm<90>>>);

// By the estimate, a step of GPT-2 124M reaches 40 % of the 989 TFLOP/s of an H200, counted as 6 FLOPs per parameter
// and token, and 6 per layer, feature and token of the context.
using sixteen = gpt<12, 12, 768, 50257, 1024, 16>;
constexpr double model_flops =
    16 * 1024 * (6.0 * static_cast<double>(on_h200<sixteen>::parameter_count) + 6.0 * 12 * 768 * 1024);
static_assert(model_flops / seconds_of_step<sixteen> >= 0.40 * 989e12);

// The estimates in docs/on-a-gpu.md, in tenths of a millisecond.
template <class task> constexpr int rounded = static_cast<int>(1e4 * seconds_of_step<task> + 0.5);
static_assert(rounded<sixteen> == 302 && rounded<gpt<12, 12, 768, 50257, 1024, 32>> == 587);
static_assert(rounded<gpt<12, 12, 768, 50257, 1024, 64>> == 1159);
static_assert(rounded<gpt<36, 20, 1280, 50257, 1024, 16>> == 1685);

} // namespace

TEST_CASE("the program is the CPU's up to its addresses, and to the sums over rows in the step") {
  same_program<small, ct::accumulate<2>, ct::checkpoint::every<2>>();
  same_program<classifier>();
  same_program<padded<4, 5, true, 19>, ct::optimizer::adafactor>();
  same_program<mlp<12, 20, 7>, ct::optimizer::muon<>>();
  same_program<normed<12, 5, 7>, ct::optimizer::adamw_8bit>();
  using device = ct::trainer<small, device_policy>::entries;
  auto const sums = calls_of(device::step_program::final, ct::info_of<ct::op::sum_parts>);
  CHECK(sums == 4 + 2 * 2 + 2); // the biases and norms of a block, and the last norm
  auto const nodes = [](ct::program const& p) { return p.nodes.size(); };
  CHECK(nodes(device::step_program::final) == nodes(ct::trainer<small>::entries::step_program::final) + sums);
}

TEST_CASE("a device casts the biases of linear layers, which cuBLASLt adds, once for all layers") {
  using cpu = ct::trainer<small, ct::precision::bf16>::entries;
  using device = ct::trainer<small, ct::precision::bf16, device_policy>::entries;
  CHECK(cast_vectors(cpu::step_program::final) == 0);
  CHECK(cast_vectors(device::step_program::final) == 4);
  CHECK(cast_vectors(device::evaluate_program::final) == 4);
  // pure_bf16 stores biases in fp32 only.
  CHECK(cast_vectors(ct::trainer<small, ct::precision::pure_bf16, device_policy>::entries::step_program::final) == 0);
}

TEST_CASE("an inference object reads biases in the type in which a trainer on the same device reads them") {
  using trainer = ct::trainer<small, ct::precision::bf16, device_policy>::entries;
  using inference = ct::inference<small, ct::precision::bf16, device_policy>::entries;
  CHECK(narrow_biases(trainer::evaluate_program::final) == 4);
  CHECK(narrow_biases(inference::evaluate_program::final) == 4);
  CHECK(narrow_biases(inference::generate_program::final) == 4);
  CHECK(narrow_biases(ct::inference<small, ct::precision::bf16>::entries::evaluate_program::final) == 0);
  CHECK(narrow_biases(
            ct::inference<small, ct::precision::pure_bf16, device_policy>::entries::evaluate_program::final) == 0);
}
