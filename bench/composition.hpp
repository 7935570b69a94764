#pragma once

#include "adamw_pass.hpp"
#include "gemms.hpp"

#include <constrain/model/gpt2.hpp>
#include <constrain/run/host_arena.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace constrain::bench {

/// A lower bound for the time of a GPT-2 training step: the GEMMs of all linear layers (forward, input gradient, weight
/// gradient), each with the fastest provider for its shape, and one AdamW pass over the parameters. Every layer has
/// separate weights and gradients; all layers share the memory of the activations. Attention, element-wise ops and the
/// loss are left out.
template <class stored> class composition {
public:
  composition(gpt2 const& model, std::int64_t rows, std::int64_t parameters) : parameters_(parameters), rows_(rows) {
    std::int64_t const w = model.width;
    std::int64_t first = 0;
    auto const add_layer = [&](std::int64_t out, std::int64_t in) {
      layers_.push_back({out, in, first});
      first += out * in;
    };
    add_layer(model.vocabulary, w);
    for (int i = 0; i < model.layers; ++i)
      add_layer(3 * w, w), add_layer(w, w), add_layer(4 * w, w), add_layer(w, 4 * w);
    auto const widest = std::max<std::int64_t>(model.vocabulary, 4 * w);

    masters_ = take<float>(parameters, 0.02);
    gradients_ = take<float>(parameters, 1e-3);
    momentum_ = take<float>(parameters, 0);
    variance_ = take<float>(parameters, 0);
    if constexpr (std::is_same_v<stored, float>) weights_ = masters_;
    else weights_ = take<stored>(first, 0.02);
    x_ = take<stored>(rows * 4 * w, 1);
    dy_ = take<stored>(rows * widest, 1e-3);
    y_ = take<stored>(rows * widest, 0);
    choose_providers();
  }

  /// Runs the GEMMs and the AdamW pass once. Returns the seconds that each of the two takes.
  std::pair<double, double> run() {
    auto const gemms = seconds_of([&] {
      for (std::size_t i = 1; i < layers_.size(); ++i) forward(layers_[i]);
      forward(layers_[0]);
      backward(layers_[0]);
      for (auto i = layers_.size() - 1; i > 0; --i) backward(layers_[i]);
    });
    return {gemms, seconds_of([&] { update(); })};
  }

  /// The number of floating-point operations of the GEMMs.
  double flops() const {
    double total = 0;
    for (auto const& l : layers_) total += 6.0 * static_cast<double>(rows_ * l.out * l.in);
    return total;
  }

  struct choice {
    std::string name;
    gemm_shape shape;
    std::vector<std::pair<std::string, double>> tried; // name and seconds
    std::string best;
  };
  std::vector<choice> const& choices() const { return choices_; }

private:
  struct layer {
    std::int64_t out, in, first;
  };

  template <class T> T* take(std::int64_t count, float stddev) {
    // Arrays whose distances are powers of two would compete for the same cache sets and memory banks.
    auto const skipped = static_cast<std::int64_t>(arenas_.size()) * (5 * 4096 + 832);
    arenas_.push_back(std::make_unique<host_arena>(bytes(skipped + count * static_cast<std::int64_t>(sizeof(T)))));
    auto* const data = reinterpret_cast<T*>(arenas_.back()->data() + skipped);
    parallel_chunks(count, 1 << 16, [=](std::int64_t begin, std::int64_t end) {
      std::minstd_rand bits(static_cast<unsigned>(begin / 65536 + 1));
      // Uniform distribution with mean 0 and standard deviation `stddev`.
      for (std::int64_t i = begin; i < end; ++i)
        data[i] = stddev * 3.4641016f * (static_cast<float>(bits()) / 2147483648.0f - 0.5f);
    });
    return data;
  }

  gemm_shape forward_of(layer const& l) const { return {false, true, rows_, l.out, l.in}; }
  gemm_shape input_gradient_of(layer const& l) const { return {false, false, rows_, l.in, l.out}; }
  gemm_shape weight_gradient_of(layer const& l) const { return {true, false, l.out, l.in, rows_}; }

  void forward(layer const& l) { plain_.at(forward_of(l).key()).multiply(forward_of(l), x_, weights_ + l.first, y_); }
  void backward(layer const& l) {
    plain_.at(input_gradient_of(l).key()).multiply(input_gradient_of(l), dy_, weights_ + l.first, y_);
    summed_.at(weight_gradient_of(l).key()).multiply(weight_gradient_of(l), dy_, x_, gradients_ + l.first);
  }

  void choose_providers() {
    auto const plain = providers<stored, stored>();
    auto const summed = providers<stored, float>();
    auto const add = [&](char const* what, auto& chosen, auto const& all, gemm_shape const& p, stored const* a,
                         stored const* b, auto* c) {
      if (chosen.contains(p.key())) return;
      auto found = choose(all, p, a, b, c);
      choices_.push_back({what, p, found.tried, found.best.name});
      chosen.emplace(p.key(), std::move(found.best));
    };
    for (auto const& l : layers_) {
      add("forward", plain_, plain, forward_of(l), x_, weights_ + l.first, y_);
      add("input gradient", plain_, plain, input_gradient_of(l), dy_, weights_ + l.first, y_);
      add("weight gradient", summed_, summed, weight_gradient_of(l), dy_, x_, gradients_ + l.first);
    }
  }

  void update() { adamw_pass(parameters_, ++step_, gradients_, masters_, momentum_, variance_); }

  std::vector<std::unique_ptr<host_arena>> arenas_;
  std::vector<layer> layers_; // the head first
  std::int64_t parameters_, rows_, step_ = 0;
  float *masters_, *gradients_, *momentum_, *variance_;
  stored *weights_, *x_, *dy_, *y_;
  std::map<decltype(gemm_shape{}.key()), provider<stored, stored>> plain_;
  std::map<decltype(gemm_shape{}.key()), provider<stored, float>> summed_;
  std::vector<choice> choices_;
};

} // namespace constrain::bench
