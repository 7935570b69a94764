#pragma once

#include <constrain/constrain.hpp>

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace constrain::bench {

inline std::vector<std::int32_t> random_integers(std::int64_t count, std::int64_t below, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  for (auto& x : values) x = static_cast<std::int32_t>(bits() % static_cast<std::uint32_t>(below));
  return values;
}

/// Runs the step of a trainer, with hooks, on the trainer's device.
template <class task, class... list> class step_of_plan {
public:
  using policy_set = policies<list...>;
  using entries = constrain::entries<task, policy_set>;
  using entry = typename entries::step;
  using device = typename policy_set::target;
  static constexpr std::int64_t micro_batches = policy_set::accumulation::value.micro_batches;

  explicit step_of_plan(double dropout = 0) : runner_(entries::memory.peak, entries::scratch) {
    auto& arena = runner_.arena();
    initialize(entries::parameters.view(), 1, arena, 0);
    for (int v = 0; v < entries::step_program::final.values.size(); ++v)
      if (entries::step_program::final.values[v].role == role::state)
        arena.fill(entry::where.buffers[v].offset, entry::where.buffers[v].size, 0);
    parameters_.seed = 1;
    self alone;
    constrain::detail::start_settings({entries::parameters.view(), arena, alone}, {.dropout = dropout});
    double const inverse_label_count =
        1.0 / static_cast<double>(entry::value.nth(constrain::port_kind::label, 0).view.elements);
    arena.write(entry::value.inverse_label_count.offset, &inverse_label_count, sizeof inverse_label_count);
    parameters_.samples = task::sequences;
    if constexpr (entries::keeps_copies) runner_.template run<typename entries::casts>(parameters_);
  }

  template <class hooks = no_hooks> void run(hooks&& h = {}) {
    using optimizer = typename policy_set::optimizer;
    op::step_hyperparameters<optimizer, storage<entries::master>> const hyper({}, {parameters_.updates + 1});
    auto& arena = runner_.arena();
    auto const& plan = entry::value;
    arena.write(plan.hyper.offset, &hyper, sizeof hyper);
    // Write the tokens and labels before every step, because a step may reuse their bytes.
    arena.write(plan.nth(constrain::port_kind::input, 0).view.offset, tokens_.data(),
                plan.nth(constrain::port_kind::input, 0).view.elements * 4);
    arena.write(plan.nth(constrain::port_kind::label, 0).view.offset, labels_.data(),
                plan.nth(constrain::port_kind::label, 0).view.elements * 4);
    runner_.template run<entry>(parameters_, h);
    ++parameters_.step, ++parameters_.updates;
  }

  step_parameters const& parameters() const { return parameters_; }
  runner<device, false>& on_device() { return runner_; }

private:
  runner<device, false> runner_;
  std::vector<std::int32_t> tokens_ =
      random_integers(entry::value.nth(constrain::port_kind::input, 0).view.elements, entries::vocabulary, 2);
  std::vector<std::int32_t> labels_ =
      random_integers(entry::value.nth(constrain::port_kind::label, 0).view.elements, entries::logits.features(), 3);
  step_parameters parameters_;
};

} // namespace constrain::bench
