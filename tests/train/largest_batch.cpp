#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

// The largest micro-batch is a constant that needs no kernel.

namespace ct = constrain;

namespace {

constexpr ct::gpt2 small{.layers = 3, .heads = 2, .width = 16, .vocabulary = 32, .context = 8};

template <auto model, int sequences, class... policies>
constexpr ct::bytes peak = ct::entries<ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = sequences}>,
                                       ct::policies<policies...>>::memory.peak;

/// Whether the largest micro-batch fits, and one sequence more does not.
template <ct::bytes limit, auto model, class... policies> constexpr bool is_largest() {
  constexpr auto batch = ct::largest_batch<limit, model, ct::causal_lm, policies...>;
  return peak<model, batch.sequences, policies...> <= limit && peak<model, batch.sequences + 1, policies...> > limit;
}

using eight_bits = ct::optimizer::adamw_8bit;
using ct::checkpoint::every, ct::precision::pure_bf16;
static_assert(is_largest<ct::kibibytes(300), small>());
static_assert(is_largest<ct::mebibytes(3), small, ct::precision::bf16, ct::checkpoint::every<1>>());
static_assert(is_largest<ct::mebibytes(1), small, ct::optimizer::sgd, ct::accumulate<4>>());
static_assert(is_largest<ct::mebibytes(4096), ct::gpt2{}>());
static_assert(is_largest<ct::mebibytes(4096), ct::gpt2{}, pure_bf16, eight_bits, every<1>>());
// The least that fits, to the byte.
static_assert(ct::largest_batch<peak<small, 1>, small, ct::causal_lm>.sequences == 1);
static_assert(ct::largest_batch<peak<small, 7>, small, ct::causal_lm>.sequences == 7);
static_assert(ct::largest_batch<ct::bytes(peak<small, 7>.count() - 1), small, ct::causal_lm>.sequences == 6);

// The peak falls where the logits reach 256 MiB, because the head and the loss become a loop over rows there.
using in_backward = ct::optimizer::in_backward<eight_bits>;
template <int sequences> constexpr ct::bytes lean_peak = peak<ct::gpt2{}, sequences, pure_bf16, in_backward, every<1>>;
template <ct::bytes limit>
constexpr int largest_lean =
    ct::largest_batch<limit, ct::gpt2{}, ct::causal_lm, pure_bf16, in_backward, every<1>>.sequences;
static_assert(lean_peak<1> < lean_peak<3> && lean_peak<3> < lean_peak<2>);
static_assert(largest_lean<lean_peak<3>> == 3);
static_assert(largest_lean<ct::bytes(lean_peak<3>.count() - 1)> == 1);

// A classifier has one row of logits per sequence, so the loop needs several sequences, however long they are.
struct wide {
  static constexpr int context = 32;
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 256, .width = 16});
    return ct::linear("head", ct::silu(ct::linear("up", ct::mean(x, ct::axis::tokens), 512)), 1 << 17);
  }
};
template <int sequences>
constexpr ct::bytes wide_peak =
    ct::entries<ct::task<wide{}, ct::classification, ct::micro_batch{.sequences = sequences}>, ct::policies<>>::memory
        .peak;
constexpr int most_wide = ct::largest_batch<ct::mebibytes(1100), wide{}, ct::classification>.sequences;
static_assert(most_wide >= 512 && wide_peak<most_wide> <= ct::mebibytes(1100));
static_assert(wide_peak<most_wide + 1> > ct::mebibytes(1100) && wide_peak<511> > ct::mebibytes(1100));

} // namespace

TEST_CASE("largest_batch: more memory, or policies that save it, give more sequences") {
  constexpr auto limit = ct::mebibytes(4096);
  constexpr int plain = ct::largest_batch<limit, ct::gpt2{}, ct::causal_lm>.sequences;
  constexpr int lean = ct::largest_batch<limit, ct::gpt2{}, ct::causal_lm, pure_bf16, eight_bits, every<1>>.sequences;
  MESSAGE("GPT-2 124M in 4 GiB: " << plain << " sequences of 1024 tokens, with the policies that save memory " << lean);
  CHECK(plain >= 1);
  CHECK(lean > plain);
}

TEST_CASE("largest_batch: a trainer of the micro-batch uses no more than the limit") {
  constexpr auto limit = ct::mebibytes(2);
  constexpr auto batch = ct::largest_batch<limit, small, ct::causal_lm>;
  ct::trainer<ct::task<small, ct::causal_lm, batch>> t({}, {.measure_memory = true});
  std::vector<std::int32_t> const tokens(static_cast<std::size_t>(t.batch_tokens), 3);
  std::vector<std::int32_t> const labels(tokens.size(), 4);
  t.step(t.batch(tokens, labels));
  CHECK(t.used_bytes() <= limit);
  CHECK(t.used_bytes() == t.memory.peak);
}
