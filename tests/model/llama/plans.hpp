#pragma once

#include "model/alive.hpp"

#include <doctest/doctest.h>

#include <cstdint>

// The plans of published models, each part of their memory beside its formula. Nothing is allocated.

namespace constrain::test {

/// A tensor that a model has `count` of.
struct tensor {
  std::int64_t count, elements;
  bool is_matrix = true, is_embedding = false;

  constexpr std::int64_t all() const { return count * elements; }
};

/// What a llama consists of, from the sizes in its config.json.
struct consists_of {
  std::int64_t layers, heads, key_value_heads, width, hidden, vocabulary, of_head;
  bool biases, head_norms;

  constexpr explicit consists_of(llama const& m)
      : layers(m.layers), heads(m.heads), key_value_heads(m.key_value_heads), width(m.width), hidden(m.hidden),
        vocabulary(m.vocabulary), of_head(m.head_width != 0 ? m.head_width : m.width / m.heads), biases(m.biases),
        head_norms(m.head_norms) {}
  constexpr std::int64_t queries() const { return heads * of_head; }
  constexpr std::int64_t keys() const { return key_value_heads * of_head; }
  /// The sum of f(tensor) over all kinds of tensors.
  template <class function> constexpr std::int64_t sum(function const& f) const {
    std::int64_t total = f(tensor{1, vocabulary * width, true, true}) + f(tensor{1, vocabulary * width});
    total += f(tensor{2 * layers, width * queries()}) + f(tensor{2 * layers, width * keys()}); // and the projection
    total += f(tensor{3 * layers, width * hidden}) + f(tensor{2 * layers + 1, width, false});
    if (biases) total += f(tensor{layers, queries(), false}) + f(tensor{2 * layers, keys(), false});
    if (head_norms) total += f(tensor{2 * layers, of_head, false});
    return total;
  }
  constexpr std::int64_t parameters() const {
    return sum([](tensor const& t) { return t.all(); });
  }
  /// `of_matrix` bytes per element of a matrix and `of_vector` per element of a bias or norm. `ranks`: in the shard of
  /// one of so many ranks, which stores whole chunks of 1024 elements.
  constexpr bytes stored(std::int64_t of_matrix, std::int64_t of_vector, std::int64_t ranks = 1) const {
    return bytes(sum([&](tensor const& t) {
      auto const chunks = (t.elements + 1023) / 1024, shard = (chunks + ranks - 1) / ranks * 1024;
      return t.count * (shard < t.elements ? shard : t.elements) * (t.is_matrix ? of_matrix : of_vector);
    }));
  }
  /// AdamW's states in 8 bits: of each of two fields a byte per element, and 4 per block of 256; of the token embedding
  /// and of tensors of fewer than 4096 elements, 4 per element.
  constexpr bytes in_8_bits() const {
    return bytes(sum([](tensor const& t) {
      bool const wide = t.is_embedding || t.elements < 4096;
      return 2 * t.count * (wide ? 4 * t.elements : t.elements + 4 * ((t.elements + 255) / 256));
    }));
  }
  /// What the backward pass of `tokens` tokens needs of the layers in bf16, except their inputs.
  constexpr bytes kept_in_layers(std::int64_t tokens) const {
    // The sum after the attention and both normalized inputs; the value; queries and keys in their positions and the
    // attention's result; gate, SiLU, up and their product.
    auto narrow = 3 * width + keys() + queries() + keys() + queries() + 4 * hidden;
    auto wide = heads + 2; // a statistic per head of the attention and one per norm, in fp32
    if (head_norms) narrow += queries() + keys(), wide += heads + key_value_heads; // before their norms
    return bytes(layers * tokens * (2 * narrow + 4 * wide));
  }
};

constexpr std::int64_t tokens_of_a_plan = 2048;
template <llama m, class... policies>
using planned = trainer<task<m, causal_lm, micro_batch{.sequences = 1, .tokens = tokens_of_a_plan}>, policies...>;
/// Every part of the bytes that persist over a step, and gradients.
template <class trainer>
constexpr bool stores(bytes weights, bytes master_weights, bytes gradients, bytes optimizer_state) {
  constexpr auto m = trainer::memory;
  return m.weights == weights && m.master_weights == master_weights && m.gradients == gradients &&
         m.optimizer_state == optimizer_state;
}
/// Whether no layout of the step would need less, but for 64 bytes.
template <class trainer> constexpr bool is_tight = trainer::memory.peak - most_alive<trainer>() <= bytes(64);

/// What one of so many ranks of zero<3> stores, from a program that is not partitioned.
template <class trainer> constexpr memory_plan of_rank(int ranks) {
  auto const p = constrain::detail::share_bytes(
      partition(trainer::entries::step_program::fused, {.distributed = true, .stage = 3, .shards = ranks}));
  return memory_of(p, plan_memory(p), 0);
}

/// The plans of a model. Its file instantiates `hold` in a static_assert.
template <llama m> struct plans {
  using each_layer = checkpoint::every<1>;
  using in_bf16 = planned<m, precision::bf16>;
  using checkpointed = planned<m, precision::bf16, each_layer>;
  using states_in_8_bits = planned<m, precision::bf16, each_layer, optimizer::adamw_8bit>;
  using pure = planned<m, precision::pure_bf16, each_layer>;
  using smallest = planned<m, precision::pure_bf16, each_layer, optimizer::in_backward<optimizer::adafactor>>;

  static constexpr consists_of all{m};
  static constexpr auto n = all.parameters();
  static_assert(in_bf16::parameter_count == n);

  // Mixed precision reads bf16 copies of matrices; AdamW has two fp32 states.
  static_assert(stores<in_bf16>(all.stored(2, 4), all.stored(4, 0), bytes(4 * n), bytes(8 * n)));
  static_assert(stores<checkpointed>(all.stored(2, 4), all.stored(4, 0), bytes(4 * n), bytes(8 * n)));
  static_assert(stores<states_in_8_bits>(all.stored(2, 4), all.stored(4, 0), bytes(4 * n), all.in_8_bits()));
  static_assert(stores<pure>(all.stored(2, 4), bytes(0), bytes(4 * n), bytes(8 * n)));

  // Activations. With a checkpoint at each layer, only the inputs of layers are kept.
  static constexpr auto inputs = bytes(2 * (all.layers + 1) * tokens_of_a_plan * all.width);
  static_assert(kept<checkpointed>("add") == inputs);
  static_assert(kept<in_bf16>() - kept<checkpointed>() == all.kept_in_layers(tokens_of_a_plan));
  static_assert(is_tight<in_bf16> && is_tight<checkpointed> && is_tight<states_in_8_bits> && is_tight<pure> &&
                is_tight<smallest>);

  // One of 8 ranks.
  static constexpr memory_plan rank = of_rank<checkpointed>(8);
  static_assert(rank.weights == all.stored(2, 4, 8) && rank.master_weights == all.stored(4, 0, 8));
  static_assert(rank.gradients == all.stored(4, 4, 8) && rank.optimizer_state == all.stored(8, 8, 8));

  static void print() {
    auto const gib = [](bytes b) { return b.mebibytes() / 1024; };
    MESSAGE("GiB: bf16 " << gib(in_bf16::memory.peak) << ", a checkpoint at each layer "
                         << gib(checkpointed::memory.peak) << ", and AdamW in 8 bits "
                         << gib(states_in_8_bits::memory.peak) << "; pure_bf16 " << gib(pure::memory.peak)
                         << ", with Adafactor in the backward pass " << gib(smallest::memory.peak)
                         << "; a rank of zero<3, 8> " << gib(rank.peak));
    CHECK(in_bf16::memory.peak > checkpointed::memory.peak);
  }
};

} // namespace constrain::test
