#pragma once

#include <constrain/constrain.hpp>

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>

/// Rows of policies in which every legal pair of values of two slots occurs: a covering array of strength two.
namespace constrain::test {

/// The slots of a row, by index.
enum slot_index {
  precision_slot,
  optimizer_slot,
  accumulation_slot,
  checkpoint_slot,
  parallel_slot,
  attention_slot,
  fusion_slot,
  freeze_slot,
  slots
};

// The values of each slot; the first is the default.
using precisions = std::tuple<precision::fp32, precision::tf32, precision::bf16, precision::fp16, precision::pure_bf16,
                              precision::fp64>;
using optimizers =
    std::tuple<optimizer::adamw, optimizer::adam, optimizer::sgd, optimizer::momentum, optimizer::nesterov,
               optimizer::lion, optimizer::states_in<dtype::bf16, optimizer::adamw>,
               optimizer::by_role<optimizer::adamw>, optimizer::averaged<optimizer::adamw>,
               optimizer::in_backward<optimizer::adamw>, optimizer::muon<optimizer::adamw>, optimizer::adafactor,
               optimizer::adafactor_relative_step, optimizer::adafactor_with_momentum, optimizer::adamw_8bit,
               optimizer::quantized<optimizer::adamw, optimizer::everything>>;
using accumulations = std::tuple<accumulate<1>, accumulate<2>>;
struct half_way {}; // checkpoint::budget with a limit between the peaks of checkpoint::none and checkpoint::keep<>
using checkpoints = std::tuple<checkpoint::none, checkpoint::every<1>, checkpoint::every<2>, checkpoint::sqrt,
                               checkpoint::keep<op::attention>, half_way>;
using parallelisms =
    std::tuple<parallel::none, parallel::ddp, parallel::zero<1, 2>, parallel::zero<2, 2>, parallel::zero<3, 2>,
               parallel::tensor<2>, parallel::mesh<parallel::ddp, parallel::tensor<2>>,
               parallel::mesh<parallel::zero<3, 2>, parallel::tensor<2>>>;
using attentions = std::tuple<attention::automatic, attention::reference>;
using fusions = std::tuple<fusion::automatic, fusion::none>;
using freezes = std::tuple<freeze<>, freeze<role::embedding>, train_only<role::bias>>;

inline constexpr int values_of_slot[slots] = {std::tuple_size_v<precisions>,    std::tuple_size_v<optimizers>,
                                              std::tuple_size_v<accumulations>, std::tuple_size_v<checkpoints>,
                                              std::tuple_size_v<parallelisms>,  std::tuple_size_v<attentions>,
                                              std::tuple_size_v<fusions>,       std::tuple_size_v<freezes>};

/// Index of a type in a tuple.
template <class wanted, class... types> constexpr int index_in(std::tuple<types...> const*) {
  int index = 0, found = -1;
  ((std::is_same_v<wanted, types> ? found = index : 0, ++index), ...);
  return found;
}
template <class list, class type> inline constexpr int index_of = index_in<type>(static_cast<list const*>(nullptr));

/// Whether two values of different slots go together, said by hand; docs/compatibility.md says the same.
constexpr bool go_together(int slot, int value, int other_slot, int other) {
  if (slot > other_slot) return go_together(other_slot, other, slot, value);
  constexpr int in_backward = index_of<optimizers, optimizer::in_backward<optimizer::adamw>>;
  constexpr int muon = index_of<optimizers, optimizer::muon<optimizer::adamw>>;
  constexpr int averaged = index_of<optimizers, optimizer::averaged<optimizer::adamw>>;
  if (slot == precision_slot && other_slot == optimizer_slot) {
    if (value == index_of<precisions, precision::fp16> && other == in_backward) return false;
    return !(value == index_of<precisions, precision::pure_bf16> && other == averaged);
  }
  if (slot == optimizer_slot && other_slot == accumulation_slot) return !(value == in_backward && other == 1);
  if (slot == optimizer_slot && other_slot == parallel_slot) {
    bool const shards = (other >= 2 && other <= 4) || other == 7, divides = other >= 5;
    return !(value == in_backward && shards) && !(value >= muon && divides);
  }
  return true;
}

/// A row: the value of each slot.
using row = std::array<int, slots>;
inline constexpr int most_rows = 160;

/// The rows, chosen greedily: one for each parallelism and optimizer, then for the pairs that are left.
struct covering_array {
  std::array<row, most_rows> rows{};
  int size = 0;
  int legal_pairs = 0;
  int uncovered = 0;

  constexpr covering_array() {
    for (int s = 0; s < slots; ++s)
      for (int o = s + 1; o < slots; ++o)
        for (int a = 0; a < values_of_slot[s]; ++a)
          for (int b = 0; b < values_of_slot[o]; ++b) legal_pairs += go_together(s, a, o, b) ? 1 : 0;
    for (int l = 0; l < values_of_slot[parallel_slot]; ++l)
      for (int o = 0; o < values_of_slot[optimizer_slot]; ++o)
        if (go_together(optimizer_slot, o, parallel_slot, l)) add(optimizer_slot, o, parallel_slot, l);
    for (int s = 0; s < slots; ++s)
      for (int o = s + 1; o < slots; ++o)
        for (int a = 0; a < values_of_slot[s]; ++a)
          for (int b = 0; b < values_of_slot[o]; ++b)
            if (go_together(s, a, o, b) && !covered_[s][a][o][b]) add(s, a, o, b);
    uncovered = legal_pairs;
    for (int s = 0; s < slots; ++s)
      for (int o = s + 1; o < slots; ++o)
        for (int a = 0; a < values_of_slot[s]; ++a)
          for (int b = 0; b < values_of_slot[o]; ++b) uncovered -= covered_[s][a][o][b] ? 1 : 0;
  }

private:
  static constexpr int most_values = 16;
  bool covered_[slots][most_values][slots][most_values]{};

  constexpr bool is_covered(int s, int a, int o, int b) const {
    return s < o ? covered_[s][a][o][b] : covered_[o][b][s][a];
  }
  /// Adds a row with these two values; each other slot gets the value with the most pairs that no row has yet.
  constexpr void add(int s, int a, int o, int b) {
    row chosen{};
    bool is_set[slots]{};
    chosen[static_cast<std::size_t>(s)] = a, chosen[static_cast<std::size_t>(o)] = b;
    is_set[s] = is_set[o] = true;
    for (int slot = 0; slot < slots; ++slot) {
      if (is_set[slot]) continue;
      int best = -1, most = -1;
      for (int k = 0; k < values_of_slot[slot]; ++k) {
        int const value = (k + size) % values_of_slot[slot];
        int fresh = 0;
        bool fits = true;
        for (int other = 0; other < slots; ++other) {
          if (!is_set[other]) continue;
          auto const there = chosen[static_cast<std::size_t>(other)];
          fits = fits && go_together(slot, value, other, there);
          fresh += is_covered(slot, value, other, there) ? 0 : 1;
        }
        if (fits && fresh > most) best = value, most = fresh;
      }
      chosen[static_cast<std::size_t>(slot)] = best < 0 ? 0 : best;
      is_set[slot] = true;
    }
    for (int x = 0; x < slots; ++x)
      for (int y = x + 1; y < slots; ++y)
        covered_[x][chosen[static_cast<std::size_t>(x)]][y][chosen[static_cast<std::size_t>(y)]] = true;
    rows[static_cast<std::size_t>(size++)] = chosen;
  }
};

inline constexpr covering_array all_pairs;
static_assert(all_pairs.uncovered == 0 && all_pairs.size <= most_rows);

} // namespace constrain::test
