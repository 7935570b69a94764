#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

// Bytes per parameter, by exact formulas; beside them the rounded figures of the usual guides to training memory.

namespace ct = constrain;

namespace {

using ct::bytes, ct::dtype;
using namespace ct::optimizer;

template <auto model, class... policies>
using trainer = ct::trainer<ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 1}>, policies...>;

/// Elements of the parameters for which `wanted(parameter)` is true.
template <class trainer, class predicate> constexpr std::int64_t elements(predicate const& wanted) {
  std::int64_t total = 0;
  for (auto const& p : trainer::entries::parameters.parameters) total += wanted(p) ? p.elements() : 0;
  return total;
}
template <class trainer> constexpr std::int64_t all = trainer::parameter_count;
template <class trainer>
constexpr std::int64_t in_matrices = elements<trainer>([](auto const& p) { return p.shape.rank >= 2; });

/// Bytes of states in 8 bits: of each field a byte per element, and 4 per block of 256; of embeddings and tensors of
/// fewer than 4096 elements two fields in fp32.
template <class trainer> constexpr bytes in_8_bits(bool everything = false) {
  std::int64_t total = 0;
  for (auto const& p : trainer::entries::parameters.parameters) {
    auto const n = p.shape.elements();
    bool const wide = !everything && (p.role == ct::role::embedding || n < 4096);
    total += 2 * p.iterations * (wide ? 4 * n : n + 4 * ((n + 255) / 256));
  }
  return bytes(total);
}

/// Bytes of Adafactor's states: a number per row and per column of each part of a matrix, one per element of a vector.
template <class trainer> constexpr bytes in_rows_and_columns() {
  std::int64_t total = 0;
  for (auto const& s : trainer::entries::parameters.states) total += s.elements() * ct::size_of(s.type);
  return bytes(total);
}

// A model of 3 billion parameters (guide: AdamW 24 GB, Adafactor with momentum above 12 GB, 8-bit AdamW 6 GB).
constexpr ct::gpt2 three_billion{.layers = 36, .heads = 32, .width = 2560};
using adamw_3b = trainer<three_billion, adamw>;
static_assert(all<adamw_3b> == 2'963'637'760);
static_assert(adamw_3b::memory.optimizer_state == bytes(8 * all<adamw_3b>)); // 23.7 GB
using adafactor_3b = trainer<three_billion, adafactor_with_momentum>;
static_assert(adafactor_3b::memory.optimizer_state == in_rows_and_columns<adafactor_3b>());
static_assert(adafactor_3b::memory.optimizer_state > bytes(4 * all<adamw_3b>) &&
              adafactor_3b::memory.optimizer_state < bytes(4 * all<adamw_3b> + (32 << 20))); // 11.9 GB
using factored_3b = trainer<three_billion, adafactor>;
static_assert(factored_3b::memory.optimizer_state < bytes(32 << 20)); // only rows and columns
using eight_bits_3b = trainer<three_billion, adamw_8bit>;
static_assert(eight_bits_3b::memory.optimizer_state == in_8_bits<eight_bits_3b>()); // 6.8 GB: the embedding in fp32
using all_in_8_bits_3b = trainer<three_billion, quantized<adamw, everything>>;
static_assert(all_in_8_bits_3b::memory.optimizer_state == in_8_bits<all_in_8_bits_3b>(true)); // 6.02 GB

// Bytes per parameter, GPT-2 124M (guide: weights 4, mixed 6; gradients 4; AdamW 8, 8-bit 2, one state 4).
constexpr ct::gpt2 gpt2{};
using in_fp32 = trainer<gpt2, adamw>;
static_assert(in_fp32::memory.weights == bytes(4 * all<in_fp32>) && in_fp32::memory.master_weights == bytes(0));
static_assert(in_fp32::memory.gradients == bytes(4 * all<in_fp32>));
static_assert(in_fp32::memory.optimizer_state == bytes(8 * all<in_fp32>));
static_assert(trainer<gpt2, momentum>::memory.optimizer_state == bytes(4 * all<in_fp32>));
static_assert(trainer<gpt2, lion>::memory.optimizer_state == bytes(4 * all<in_fp32>));
static_assert(trainer<gpt2, sgd>::memory.optimizer_state == bytes(0));
static_assert(trainer<gpt2, states_in<dtype::bf16, adamw>>::memory.optimizer_state == bytes(4 * all<in_fp32>));
using eight_bits = trainer<gpt2, adamw_8bit>;
static_assert(eight_bits::memory.optimizer_state == in_8_bits<eight_bits>());
using all_in_8_bits = trainer<gpt2, quantized<adamw, everything>>;
static_assert(all_in_8_bits::memory.optimizer_state == in_8_bits<all_in_8_bits>(true)); // 2.03 a parameter

// Mixed precision: 4 for the masters, 2 for the copies of matrices (guide: 18 with gradients and AdamW's states).
using mixed = trainer<gpt2, ct::precision::bf16>;
static_assert(mixed::memory.master_weights + mixed::memory.weights == bytes(4 * all<mixed> + 2 * in_matrices<mixed>));
static_assert(mixed::memory.master_weights + mixed::memory.weights + mixed::memory.gradients +
                  mixed::memory.optimizer_state ==
              bytes(16 * all<mixed> + 2 * in_matrices<mixed>)); // 17.998

// Without masters: 2 for matrices, 4 for vectors.
using pure = trainer<gpt2, ct::precision::pure_bf16>;
static_assert(pure::memory.weights == bytes(4 * all<pure> - 2 * in_matrices<pure>)); // 2.002

// GPT-2 124M on 4 sequences of 256 tokens, in all.
template <class... policies>
using whole = ct::trainer<ct::task<gpt2, ct::causal_lm, ct::micro_batch{.sequences = 4, .tokens = 256}>, policies...>;
static_assert(whole<>::memory.peak <= ct::mebibytes(2500));
static_assert(whole<ct::precision::pure_bf16, in_backward<adamw_8bit>, ct::checkpoint::every<1>>::memory.peak <=
              ct::mebibytes(1000));
static_assert(
    whole<ct::precision::pure_bf16, in_backward<quantized<adamw, everything>>, ct::checkpoint::every<1>>::memory.peak <=
    ct::mebibytes(800));

} // namespace

TEST_CASE("bytes: what the whole of GPT-2 124M takes") {
  MESSAGE("fp32 AdamW: " << whole<>::memory.peak.mebibytes() << " MiB");
  using lean = whole<ct::precision::pure_bf16, in_backward<adamw_8bit>, ct::checkpoint::every<1>>;
  MESSAGE("pure_bf16, 8-bit AdamW in the backward pass, every<1>: " << lean::memory.peak.mebibytes() << " MiB");
  CHECK(lean::memory.peak < whole<>::memory.peak);
}
