// Every legal pair of policies in a training run: the rows of pairs.hpp with one parallelism, CONSTRAIN_PARALLELISM, an
// index. Each row trains 8 steps. Its loss equals the loss in fp32 with default policies, within tolerances.hpp;
// recomputation, ZeRO and a resume change no bit, and a step whose gradients are not finite changes no weight. Without
// CONSTRAIN_PARALLELISM, the program writes the losses in fp32 to the file that the others read. Started by mpirun; the
// exit code tells.

#include "pairs.hpp"
#include "tolerances.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 64, .vocabulary = 64, .context = 16}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

int failures = 0;

void check(bool holds, std::string const& what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

/// The losses of a run, before and after it.
struct losses {
  double before = 0, after = 0;
};
using reference_losses = std::map<std::pair<int, int>, losses>; // by optimizer and freezing
constexpr char const* reference_file = "constrain-pairs-reference.txt";

template <class policy> struct replaced { using type = policy; };

/// The policies of a row, of which some slots are given.
template <int i> constexpr int value_at(slot_index slot) {
  return all_pairs.rows[static_cast<std::size_t>(i)][static_cast<std::size_t>(slot)];
}
template <class list, int index> using nth = std::tuple_element_t<static_cast<std::size_t>(index), list>;

template <int i, class checkpointing, int parallelism> struct trainer_of_row {
  using type =
      ct::trainer<task, nth<precisions, value_at<i>(precision_slot)>, nth<optimizers, value_at<i>(optimizer_slot)>,
                  nth<accumulations, value_at<i>(accumulation_slot)>, checkpointing, nth<parallelisms, parallelism>,
                  nth<attentions, value_at<i>(attention_slot)>, nth<fusions, value_at<i>(fusion_slot)>,
                  nth<freezes, value_at<i>(freeze_slot)>>;
};
/// Half way between the plans that keep everything and nothing.
template <int i, int parallelism> struct trainer_of_row<i, half_way, parallelism> {
  template <class checkpointing>
  static constexpr ct::bytes peak = trainer_of_row<i, checkpointing, parallelism>::type::memory.peak;
  using type = typename trainer_of_row<
      i, ct::checkpoint::budget<(peak<ct::checkpoint::none> + peak<ct::checkpoint::keep<>>) / 2>, parallelism>::type;
};

/// The same batch for every rank and micro-batch: the mean of the gradients equals each of them.
template <class trainer> auto batch_of(int number) {
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens)), labels(inputs);
  constexpr auto one = static_cast<std::size_t>(task::sequences * task::tokens);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto const k = i % one * 5 + static_cast<std::size_t>(number) * 3;
    inputs[i] = static_cast<std::int32_t>(k % 64), labels[i] = static_cast<std::int32_t>((k + 5) % 64);
  }
  return std::pair{inputs, labels};
}
template <class trainer> ct::step_result step(trainer& t, int number) {
  auto const [inputs, labels] = batch_of<trainer>(number);
  return t.step(t.batch(inputs, labels));
}
template <class trainer> double loss_of(trainer& t) {
  auto [inputs, labels] = batch_of<trainer>(0);
  constexpr auto one = static_cast<std::size_t>(task::sequences * task::tokens);
  inputs.resize(one), labels.resize(one);
  return t.evaluate(inputs, labels).loss;
}

/// Learning rates with which every optimizer learns something in 8 steps.
template <class trainer> typename trainer::hyper hyper() {
  std::string const name = trainer::policy_set::optimizer_name();
  bool const is_plain = name == "sgd" || name == "momentum" || name == "nesterov";
  typename trainer::hyper h{};
  ct::detail::set_learning_rates(h, is_plain ? 0.1 : name == "lion" ? 1e-3 : 2e-3);
  return h;
}

template <class trainer> std::vector<double> weights(trainer const& t) {
  std::vector<double> all;
  for (auto const& p : t.parameters()) {
    std::vector<double> x(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(x));
    all.insert(all.end(), x.begin(), x.end());
  }
  return all;
}

template <class trainer> losses train(trainer& t) {
  losses result{loss_of(t)};
  for (int i = 0; i < 8; ++i) step(t, i);
  result.after = loss_of(t);
  return result;
}

#if !defined(CONSTRAIN_PARALLELISM)

/// Whether a row has this optimizer and freezing.
constexpr bool is_used(int optimizer, int freezing) {
  for (int i = 0; i < all_pairs.size; ++i) {
    auto const& r = all_pairs.rows[static_cast<std::size_t>(i)];
    if (r[optimizer_slot] == optimizer && r[freeze_slot] == freezing) return true;
  }
  return false;
}

template <int k> void write_reference(std::ofstream& out) {
  constexpr int freezing = k % values_of_slot[freeze_slot], optimizer = k / values_of_slot[freeze_slot];
  if constexpr (is_used(optimizer, freezing)) {
    using trainer = ct::trainer<task, nth<optimizers, optimizer>, nth<freezes, freezing>>;
    trainer t(hyper<trainer>());
    auto const l = train(t);
    out << optimizer << ' ' << freezing << ' ' << l.before << ' ' << l.after << '\n';
    check(l.after < l.before, "the reference learns nothing: " + trainer::policy_set::name());
  }
}

int run() {
  std::ofstream out(reference_file);
  out.precision(17);
  [&]<int... k>(std::integer_sequence<int, k...>) { (write_reference<k>(out), ...); }
  (std::make_integer_sequence<int, values_of_slot[optimizer_slot] * values_of_slot[freeze_slot]>{});
  return out.flush() ? failures : 1;
}

#else

reference_losses read_references() {
  reference_losses all;
  std::ifstream in(reference_file);
  int optimizer = 0, freezing = 0;
  for (losses l; in >> optimizer >> freezing >> l.before >> l.after;) all[{optimizer, freezing}] = l;
  return all;
}

/// Whether ZeRO adds in the order of ddp: with several micro-batches, stages 2 and 3 reduce each on its own.
template <int i> constexpr int parallelism_of_twin() {
  constexpr int mine = value_at<i>(parallel_slot);
  constexpr bool shards_gradients = mine == 3 || mine == 4 || mine == 7;
  if (shards_gradients && value_at<i>(accumulation_slot) == 1) return mine;
  return mine >= 2 && mine <= 4 ? 1 : mine == 7 ? 6 : mine;
}

template <class trainer> void check_resume(trainer& t, std::string const& name) {
  std::string const directory = "constrain-pairs-" + std::to_string(CONSTRAIN_PARALLELISM);
  t.save(directory);
  trainer again(hyper<trainer>());
  again.load(directory);
  step(t, 8), step(again, 8);
  check(weights(t) == weights(again), "a resume: " + name);
}

/// A step whose gradients are not finite changes no weight.
template <class trainer> void check_skipped_step(trainer& t, std::string const& name) {
  auto const token = t.parameters().at(0);
  token.copy_from(std::span<double const>(
      std::vector<double>(static_cast<std::size_t>(token.size()), std::numeric_limits<double>::infinity())));
  auto const before = weights(t);
  check(!step(t, 9).not_finite.empty(), "no gradient is infinite: " + name);
  check(weights(t) == before, "a step that is not finite: " + name);
}

template <int i> void check_row(reference_losses const& references) {
  constexpr int parallelism = value_at<i>(parallel_slot);
  if constexpr (parallelism == CONSTRAIN_PARALLELISM) {
    using checkpointing = nth<checkpoints, value_at<i>(checkpoint_slot)>;
    using trainer = typename trainer_of_row<i, checkpointing, parallelism>::type;
    auto const name = trainer::policy_set::name();
    trainer t(hyper<trainer>());
    auto const mine = train(t);
    auto const wanted = references.at({value_at<i>(optimizer_slot), value_at<i>(freeze_slot)});
    auto const decrease = std::max(wanted.before - wanted.after, 0.01 * wanted.before);
    auto const part = std::abs(mine.after - wanted.after) / decrease;
    bool const takes_signs = value_at<i>(optimizer_slot) == index_of<optimizers, ct::optimizer::lion>;
    auto const allowed =
        std::max(tolerances[value_at<i>(precision_slot)].of_decrease, takes_signs ? tolerance_of_signs : 0);
    check(part <= allowed,
          "the loss: " + name + ", " + std::to_string(part) + " of the decrease " + std::to_string(decrease));
    constexpr int of_twin = parallelism_of_twin<i>();
    if constexpr (of_twin != parallelism || !std::is_same_v<checkpointing, ct::checkpoint::none>) {
      using twin = typename trainer_of_row<i, ct::checkpoint::none, of_twin>::type;
      twin other(hyper<twin>());
      train(other);
      check(weights(t) == weights(other), "the bits: " + name);
    }
    check_resume(t, name);
    check_skipped_step(t, name);
  }
}

int run() {
  auto const references = read_references();
  [&]<int... i>(std::integer_sequence<int, i...>) { (check_row<i>(references), ...); }
  (std::make_integer_sequence<int, all_pairs.size>{});
  return failures;
}

#endif

} // namespace

int main() { return run() == 0 ? EXIT_SUCCESS : EXIT_FAILURE; }
