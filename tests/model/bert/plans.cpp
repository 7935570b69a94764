#include "model/alive.hpp"

#include <doctest/doctest.h>

#include <cstdint>

// The memory of BERTs beside the figures of the usual guides to training memory, which were measured with PyTorch.

namespace ct = constrain;

namespace {

using ct::bytes, ct::kibibytes, ct::mebibytes, ct::accumulate, ct::precision::fp16, ct::test::kept,
    ct::test::most_alive;
using namespace ct::optimizer;

/// BERT large with two classes, and sequences of 512 tokens. The guides' attention stores its probabilities.
template <std::int64_t sequences, class... policies>
using large =
    ct::trainer<ct::task<ct::bert_large.with_classes(2), ct::classification, ct::micro_batch{.sequences = sequences}>,
                policies...>;
template <std::int64_t sequences, class... policies>
using plain = large<sequences, ct::attention::reference, policies...>;
using each_layer = ct::checkpoint::every<1>;
using all_in_8_bits = quantized<adamw, everything>;

// The guides' table, from its row 3: "batch 4, fp32, AdamW".
using row_3 = plain<4>;
using row_4 = plain<1, accumulate<4>>;
using row_5 = plain<1, accumulate<4>, each_layer>;
using row_6 = plain<4, fp16>;
using row_7 = plain<1, accumulate<4>, each_layer, fp16>;
using row_8 = plain<4, adafactor>;
using row_9 = plain<1, accumulate<4>, each_layer, fp16, adafactor>;
using row_10 = plain<4, all_in_8_bits>;
using row_11 = plain<1, accumulate<4>, each_layer, fp16, all_in_8_bits>;
// The default keeps the states of embeddings and of small tensors in fp32, 182 MiB more; the guides kept none.
using row_10_by_default = plain<4, adamw_8bit>;
using row_11_by_default = plain<1, accumulate<4>, each_layer, fp16, adamw_8bit>;

/// What the guides measured, in MiB: rows 1 (the CUDA context) to 11.
constexpr double measured[] = {0, 1343, 2631, 14949, 8681, 6775, 13939, 7275, 12295, 4847, 13085, 5363};
constexpr double context = measured[1];

constexpr bool is_within(double percent, double got, double expected) {
  auto const difference = got < expected ? expected - got : got - expected;
  return 100 * difference <= percent * expected;
}

// Weights.
constexpr std::int64_t parameters = 335'143'938;
static_assert(row_3::parameter_count == parameters && row_3::memory.weights == bytes(4 * parameters));
static_assert(is_within(1, row_3::memory.weights.mebibytes(), measured[2] - context));

/// Bytes of the states of Adafactor: a number per row and per column of a matrix, and per element of a vector.
constexpr bytes in_rows_and_columns() {
  std::int64_t total = 0;
  for (auto const& p : row_8::entries::parameters.parameters)
    total += 4 * p.iterations * (p.shape.rank == 2 ? p.shape.extent[0] + p.shape.extent[1] : p.shape.elements());
  return bytes(total);
}
/// Bytes of AdamW's states in 8 bits: of each of two fields a byte per element, and 4 per block of 256. By default, 4
/// per element of embeddings and of tensors of fewer than 4096 elements.
constexpr bytes in_8_bits(bool by_default) {
  std::int64_t total = 0;
  for (auto const& p : row_10::entries::parameters.parameters) {
    auto const n = p.shape.elements();
    bool const wide = by_default && (p.role == ct::role::embedding || n < 4096);
    total += 2 * p.iterations * (wide ? 4 * n : n + 4 * ((n + 255) / 256));
  }
  return bytes(total);
}
static_assert(row_3::memory.optimizer_state == bytes(8 * parameters));
static_assert(row_8::memory.optimizer_state == in_rows_and_columns());
static_assert(row_10::memory.optimizer_state == in_8_bits(false));
static_assert(row_10_by_default::memory.optimizer_state == in_8_bits(true));
template <class trainer, class same>
constexpr bool same_states = trainer::memory.optimizer_state == same::memory.optimizer_state;
static_assert(same_states<row_4, row_3> && same_states<row_5, row_3> && same_states<row_6, row_3> &&
              same_states<row_7, row_3> && same_states<row_9, row_8> && same_states<row_11, row_10> &&
              same_states<row_11_by_default, row_10_by_default>);

/// What one trainer takes less than another, in MiB.
template <class trainer, class less> constexpr double saved = (trainer::memory.peak - less::memory.peak).mebibytes();
// Rows that differ only in the optimizer.
static_assert(is_within(6, saved<row_3, row_8>, measured[3] - measured[8]));
static_assert(is_within(6, saved<row_3, row_10>, measured[3] - measured[10]));
static_assert(is_within(6, saved<row_7, row_9>, measured[7] - measured[9]));
static_assert(is_within(6, saved<row_7, row_11>, measured[7] - measured[11]));

/// What the guides measured beyond the CUDA context and the whole of our plan, activations included, in MiB.
template <int row, class trainer> constexpr double left = measured[row] - context - trainer::memory.peak.mebibytes();
static_assert(left<3, row_3> >= 0 && left<4, row_4> >= 0 && left<5, row_5> >= 0);
static_assert(left<6, row_6> >= 0 && left<7, row_7> >= 0 && left<8, row_8> >= 0);
static_assert(left<9, row_9> >= 0 && left<10, row_10> >= 0 && left<11, row_11> >= 0);

// Row 3, op by op. In MiB: 8 for [4, 512, 1024] in fp32, four times as much for the hidden features of the feed-forward
// layer, and 64 for the probabilities [4, 16, 512, 512] of a layer. The statistics of a norm take 16 KiB.
constexpr std::int64_t layers = 24;
static_assert(kept<row_3>("linear") == mebibytes(layers * (3 * 8 + 32))); // queries, keys, values; up
static_assert(kept<row_3>("attention") == mebibytes(layers * (8 + 64)));
static_assert(kept<row_3>("elementwise") == mebibytes(layers * 32) + kibibytes(16)); // GELU; tanh of the pooler
// Both sums, the result of the first norm and of the second, which is the next layer's input.
static_assert(kept<row_3>("dropout_add_layer_norm") ==
              mebibytes(layers * 3 * 8 + (layers + 1) * 8) + kibibytes(layers * 2 * 16));
static_assert(kept<row_3>("position_embedding") == mebibytes(8)); // the input of the first norm
static_assert(kept<row_3>("layer_norm") == kibibytes(16));        // its statistics
static_assert(kept<row_3>("select_token") == kibibytes(16) && kept<row_3>("dropout") == kibibytes(16)); // the pooler's
static_assert(kept<row_3>() - mebibytes(layers * (56 + 72 + 32 + 24) + (layers + 1) * 8 + 8) -
                  kibibytes(16 + layers * 32 + 3 * 16) <
              bytes(1024));
// Flash attention keeps a number per head and token instead of the probabilities: 128 KiB per layer.
using with_flash = large<4, ct::attention::flash>;
static_assert(kept<with_flash>("flash_attention") == mebibytes(layers * 8) + kibibytes(layers * 128));
static_assert(kept<row_3>() - kept<with_flash>() == mebibytes(layers * 64) - kibibytes(layers * 128));
// With a checkpoint at each layer, only their inputs are kept.
static_assert(kept<row_5>() - mebibytes((layers + 1) * 2 + 2) < kibibytes(64));

// The layout wastes less than 1 KiB.
static_assert(row_3::memory.peak - most_alive<row_3>() < bytes(1024));
static_assert(row_5::memory.peak - most_alive<row_5>() < bytes(1024));
static_assert(row_7::memory.peak - most_alive<row_7>() < bytes(1024));

// The guides' memory of BERT base by batch size, 128 tokens: MiB per sample from 32 to 64 samples.
template <std::int64_t sequences, class... policies>
using base = ct::trainer<ct::task<ct::bert{.vocabulary = 28996}.with_classes(2), ct::classification,
                                  ct::micro_batch{.sequences = sequences, .tokens = 128}>,
                         ct::attention::reference, policies...>;
template <class... policies> constexpr double per_sample = saved<base<64, policies...>, base<32, policies...>> / 32;
static_assert(per_sample<> <= (10037. - 6827) / 32);    // 100.3
static_assert(per_sample<fp16> <= (8061. - 6207) / 32); // 57.9

template <int row, class trainer> void check_row() {
  CAPTURE(row);
  CHECK(left<row, trainer> >= 0);
  MESSAGE("row " << row << ": " << measured[row] << " MiB measured, our plan " << trainer::memory.peak.mebibytes()
                 << " MiB, beyond it and the context " << left<row, trainer> << " MiB");
}

} // namespace

TEST_CASE("memory of BERT large, beside the guides' measurements") {
  check_row<3, row_3>();
  check_row<4, row_4>();
  check_row<5, row_5>();
  check_row<6, row_6>();
  check_row<7, row_7>();
  check_row<8, row_8>();
  check_row<9, row_9>();
  check_row<10, row_10>();
  check_row<11, row_11>();
  MESSAGE("8 bits by default: row 10 " << row_10_by_default::memory.peak.mebibytes() << " MiB, row 11 "
                                       << row_11_by_default::memory.peak.mebibytes() << " MiB");
  CHECK(row_11::memory.peak < row_11_by_default::memory.peak);
}
