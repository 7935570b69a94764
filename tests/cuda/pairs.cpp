// Every legal pair of device::cuda or launch::graph with a value of another slot, in a training run. Each row trains on
// the CPU, kernel by kernel on the device, and with graphs: the losses on the device are the CPU's within the bounds
// below, and graphs change no bit.

#include "comm/pairs.hpp"
#include "cuda/tasks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace ct = constrain;
using namespace constrain::test;

namespace {

template <class... policies> using on_cpu = ct::trainer<small, policies...>;
/// Half way between the plans that keep everything and nothing, on the device.
template <class checkpointing, class... others>
constexpr ct::bytes peak = on_cpu<checkpointing, others..., device_policy>::memory.peak;
template <class... others>
using budget_half_way =
    ct::checkpoint::budget<(peak<ct::checkpoint::none, others...> + peak<ct::checkpoint::keep<>, others...>) / 2>;

template <class precision, class optimizer, class accumulation, class checkpointing, class attention, class fusion,
          class freezing>
struct row {
  static constexpr int values[] = {
      index_of<precisions, precision>,      index_of<optimizers, optimizer>, index_of<accumulations, accumulation>,
      index_of<checkpoints, checkpointing>, index_of<attentions, attention>, index_of<fusions, fusion>,
      index_of<freezes, freezing>};
  template <class chosen, class... launch>
  using with = on_cpu<precision, optimizer, accumulation, chosen, attention, fusion, freezing, launch...>;
  static constexpr auto checkpoint_type = [] {
    if constexpr (std::is_same_v<checkpointing, half_way>)
      return std::type_identity<budget_half_way<precision, optimizer, accumulation, attention, fusion, freezing>>{};
    else return std::type_identity<checkpointing>{};
  }();
  using chosen = typename decltype(checkpoint_type)::type;
  using cpu = with<chosen>;
  using eager = with<chosen, device_policy>;
  using graph = with<chosen, device_policy, ct::launch::graph>;
};

using namespace ct::optimizer;
using ct::accumulate, ct::dtype, ct::freeze, ct::role, ct::train_only;
namespace precision = ct::precision;
namespace checkpoint = ct::checkpoint;
namespace attention = ct::attention;
namespace fusion = ct::fusion;

using rows = std::tuple<
    row<precision::fp32, adamw, accumulate<1>, checkpoint::none, attention::automatic, fusion::automatic, freeze<>>,
    row<precision::tf32, adam, accumulate<2>, checkpoint::every<1>, attention::reference, fusion::none,
        freeze<role::embedding>>,
    row<precision::bf16, sgd, accumulate<1>, checkpoint::every<2>, attention::automatic, fusion::automatic,
        train_only<role::bias>>,
    row<precision::fp16, momentum, accumulate<2>, checkpoint::sqrt, attention::reference, fusion::automatic, freeze<>>,
    row<precision::pure_bf16, nesterov, accumulate<1>, checkpoint::keep<ct::op::attention>, attention::automatic,
        fusion::none, freeze<>>,
    row<precision::fp64, lion, accumulate<2>, half_way, attention::reference, fusion::none, freeze<role::embedding>>,
    row<precision::bf16, states_in<dtype::bf16, adamw>, accumulate<1>, half_way, attention::automatic,
        fusion::automatic, freeze<>>,
    row<precision::fp32, by_role<adamw>, accumulate<2>, checkpoint::every<1>, attention::automatic, fusion::automatic,
        train_only<role::bias>>,
    row<precision::bf16, averaged<adamw>, accumulate<1>, checkpoint::none, attention::reference, fusion::none,
        freeze<>>,
    row<precision::pure_bf16, in_backward<adamw>, accumulate<1>, checkpoint::every<1>, attention::automatic,
        fusion::automatic, freeze<>>,
    row<precision::tf32, muon<adamw>, accumulate<1>, checkpoint::none, attention::automatic, fusion::automatic,
        freeze<>>,
    row<precision::bf16, adafactor, accumulate<2>, checkpoint::none, attention::automatic, fusion::automatic, freeze<>>,
    row<precision::fp32, adafactor_relative_step, accumulate<1>, checkpoint::every<1>, attention::reference,
        fusion::none, freeze<role::embedding>>,
    row<precision::fp64, adafactor_with_momentum, accumulate<1>, checkpoint::none, attention::automatic,
        fusion::automatic, freeze<>>,
    row<precision::fp32, adamw_8bit, accumulate<2>, checkpoint::none, attention::automatic, fusion::none, freeze<>>,
    row<precision::bf16, quantized<adamw, everything>, accumulate<1>, checkpoint::every<2>, attention::automatic,
        fusion::automatic, freeze<>>>;
/// By precision: how far a loss may be from the CPU's, as a part of it. GEMMs of the device sum in a different order.
constexpr double bounds[] = {1e-6, 1e-5, 1e-3, 1e-3, 1e-3, 1e-12};
constexpr int row_count = std::tuple_size_v<rows>;

/// Whether every value of the slots occurs in a row.
constexpr bool covers_all() {
  constexpr int slots_of_rows[] = {precision_slot, optimizer_slot, accumulation_slot, checkpoint_slot,
                                   attention_slot, fusion_slot,    freeze_slot};
  bool all = true;
  for (int s = 0; s < static_cast<int>(std::size(slots_of_rows)); ++s)
    for (int value = 0; value < values_of_slot[slots_of_rows[s]]; ++value) {
      bool found = false;
      [&]<std::size_t... i>(std::index_sequence<i...>) {
        ((found = found || std::tuple_element_t<i, rows>::values[s] == value), ...);
      }
      (std::make_index_sequence<static_cast<std::size_t>(row_count)>{});
      all = all && found;
    }
  return all;
}
static_assert(covers_all());

/// Every CONSTRAIN_TEST_SHARE-th row, other rows at each turn: see tests/CMakeLists.txt.
template <std::size_t... i>
auto draw(std::index_sequence<i...>)
    -> decltype(std::tuple_cat(std::conditional_t<(i + CONSTRAIN_TEST_TURN) % CONSTRAIN_TEST_SHARE == 0,
                                                  std::tuple<std::tuple_element_t<i, rows>>, std::tuple<>>{}...));
using drawn_rows = decltype(draw(std::make_index_sequence<static_cast<std::size_t>(row_count)>{}));

template <class trainer> trainer made() {
  auto run = numbers;
  if constexpr (ct::updates_in_backward<typename trainer::policy_set::optimizer>) run.clip_norm = 0;
  typename trainer::hyper h{};
  ct::detail::set_learning_rates(h, 3e-3);
  return trainer(h, run);
}

} // namespace

TEST_CASE_TEMPLATE_DEFINE("device::cuda and launch::graph with every value of the other slots", tested, rows_of_cuda) {
  auto cpu = made<typename tested::cpu>();
  auto eager = made<typename tested::eager>();
  auto graph = made<typename tested::graph>();
  CAPTURE(tested::graph::policy_set::name());
  CHECK(same_bits(weights_of(cpu), weights_of(eager)));
  auto const expected = losses_of(cpu, 8), found = losses_of(eager, 8);
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    largest = std::max(largest, std::abs(found[i] - expected[i]) / expected[i]);
  MESSAGE(tested::graph::policy_set::name(), ": ", largest, " of the loss");
  CHECK(largest <= bounds[tested::values[0]]);
  CHECK(same_bits(found, losses_of(graph, 8)));
  CHECK(same_bits(weights_of(eager), weights_of(graph)));
}
TEST_CASE_TEMPLATE_APPLY(rows_of_cuda, drawn_rows);
