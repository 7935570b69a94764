// The plan of a device: its bytes, and the program it comes from.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"

#include <span>

namespace ct = constrain;
using namespace constrain::test;

namespace {

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

template <class task, class... policies> void plan_is_used() {
  using trainer = ct::trainer<task, policies..., device_policy>;
  auto const w = tokens_for<trainer>(1);
  trainer t{{}, {.dropout = 0.1, .measure_memory = true}};
  CAPTURE(trainer::policy_set::name());
  auto const batch = std::span(w.inputs).first(static_cast<std::size_t>(task::sequences * task::tokens));
  t.step(t.batch(w.inputs, w.labels));
  t.predict(batch);
  t.evaluate(batch, std::span(w.labels).first(static_cast<std::size_t>(trainer::entries::labels)));
  if constexpr (trainer::entries::logits.rank == 3) t.generate(batch.first(3), 2);
  CHECK(t.used_bytes() == trainer::memory.peak);
}

} // namespace

TEST_CASE("planned bytes are the bytes that are touched") {
  plan_is_used<small>();
  plan_is_used<small, ct::accumulate<3>, ct::checkpoint::every<2>>();
  plan_is_used<small, ct::precision::bf16>();
  plan_is_used<classifier, ct::precision::fp64, ct::optimizer::sgd>();
}
