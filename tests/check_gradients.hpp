#pragma once

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "dropout_if_any.hpp"

#include <cmath>
#include <list>
#include <random>
#include <string>
#include <vector>

namespace constrain::test {

/// Inputs and labels for one batch of a trainer.
struct random_batch {
  std::vector<std::int32_t> inputs, labels;

  template <class trainer> static random_batch draw(unsigned seed) {
    std::mt19937 random(seed);
    random_batch w;
    w.inputs.resize(static_cast<std::size_t>(trainer::batch_tokens));
    w.labels.resize(static_cast<std::size_t>(trainer::micro_batches * trainer::entries::labels));
    for (auto& token : w.inputs)
      token = static_cast<std::int32_t>(random() % static_cast<unsigned>(trainer::entries::vocabulary));
    for (std::size_t i = 0; i < w.labels.size(); ++i)
      w.labels[i] =
          i % 5 == 3 ? ignored_label
                     : static_cast<std::int32_t>(random() % static_cast<unsigned>(trainer::entries::logits.features()));
    return w;
  }
};

/// Arrays for every port of a trainer's step: integers below the port's limit, normal reals.
class random_arrays {
public:
  template <class trainer> static random_arrays draw(unsigned seed) {
    std::mt19937 random(seed);
    random_arrays w;
    for (auto const& port : trainer::entries::step::value.ports)
      if (port.kind == port_kind::input) w.add(w.inputs_, port, random);
    for (auto const& port : trainer::entries::step::value.ports)
      if (port.kind == port_kind::label) w.add(w.labels_, port, random);
    return w;
  }
  /// Other integers for input `i`, as many as there are.
  void replace_input(std::size_t i, std::vector<std::int32_t> const& values) {
    inputs_[i] = array_view(integers_.emplace_back(values));
  }
  array_list inputs() const { return std::span<array_view const>(inputs_); }
  array_list labels() const { return std::span<array_view const>(labels_); }

private:
  void add(std::vector<array_view>& views, plan_port const& port, std::mt19937& random) {
    auto const count = static_cast<std::size_t>(port.elements);
    if (port.spec.type == port_type::real) {
      std::normal_distribution<double> normal(0.0, 1.0);
      auto& values = reals_.emplace_back(count);
      for (auto& x : values) x = normal(random);
      views.emplace_back(values);
      return;
    }
    auto& values = integers_.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = port.ignorable && i % 5 == 3
                      ? ignored_label
                      : static_cast<std::int32_t>(random() % static_cast<unsigned>(port.limit));
    views.emplace_back(values);
  }

  std::list<std::vector<std::int32_t>> integers_; // lists: views of their elements stay valid
  std::list<std::vector<double>> reals_;
  std::vector<array_view> inputs_, labels_;
};

/// Holds every gradient of a task against central differences in double (eps 1e-6, atol 1e-5, rtol 1e-3, as PyTorch's
/// gradcheck), with dropout on and in checked mode. Values that an op takes from another op are checked through the
/// parameters in front of it. `change(arrays)` may replace random inputs.
template <class task, class... list, class function> void check_gradients(function const& change) {
  using trainer = constrain::trainer<task, precision::fp64, optimizer::sgd, list...>;
  auto w = random_arrays::draw<trainer>(7);
  change(w);
  std::vector<std::vector<double>> weights;
  // Larger weights than the usual start, and none at a special place.
  {
    trainer t;
    std::mt19937 random(3);
    std::normal_distribution<double> normal(0.0, 0.5);
    for (auto const& p : t.parameters()) {
      std::vector<double> values(static_cast<std::size_t>(p.size()));
      for (auto& x : values) x = normal(random) + (p.role == role::norm ? 1 : 0);
      weights.push_back(values);
    }
  }
  // A new trainer each time: the same step, so the same dropout.
  auto const loss_of = [&](trainer& t) {
    auto const parameters = t.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_from(std::span<double const>(weights[i]));
    return t.step(t.batch(w.inputs(), w.labels())).loss;
  };
  typename trainer::hyper const still{.learning_rate = 0};
  run_options const run{.seed = 5, .dropout = dropout_if_any<trainer>(0.3)};
  run_options checked = run;
  checked.checked = true;
  trainer analytic(still, checked);
  loss_of(analytic);

  auto const parameters = analytic.parameters();
  REQUIRE(!parameters.empty());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!is_trainable(parameters[i].role)) continue;
    CAPTURE(std::string(parameters[i].name));
    std::vector<double> gradient(weights[i].size());
    analytic.gradient(parameters[i].name).copy_to(std::span<double>(gradient));
    // All of a small tensor, a spread of a large one.
    std::size_t const stride = gradient.size() / 60 + 1;
    for (std::size_t k = 0; k < gradient.size(); k += stride) {
      double const at = weights[i][k];
      weights[i][k] = at + 1e-6;
      trainer up(still, run);
      double const above = loss_of(up);
      weights[i][k] = at - 1e-6;
      trainer down(still, run);
      double const below = loss_of(down);
      weights[i][k] = at;
      double const numeric = (above - below) / 2e-6;
      CAPTURE(k);
      CHECK(std::abs(gradient[k] - numeric) <= 1e-5 + 1e-3 * std::abs(numeric));
    }
  }
}

template <class task, class... list> void check_gradients() {
  check_gradients<task, list...>([](random_arrays&) {});
}

} // namespace constrain::test
