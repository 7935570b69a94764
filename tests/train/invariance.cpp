#include "fixtures.hpp"

#include <constrain/constrain.hpp>

#include <cmath>
#include <random>

// Policies that must not change numbers do not.

namespace ct = constrain;

namespace {

constexpr ct::gpt2 model{.layers = 7, .heads = 2, .width = 16, .vocabulary = 61, .context = 12};
using task = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 8}>;
using small_task = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2}>;

struct batches {
  std::vector<std::int32_t> inputs, labels;

  // Sequences have very different numbers of valid labels, so that averages of averages would show.
  explicit batches(std::size_t count) {
    std::mt19937 random(11);
    inputs.resize(count * 8 * 12);
    labels.resize(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = static_cast<std::int32_t>(random() % 61);
      auto const sequence = i / 12 % 8;
      labels[i] = i % 12 < sequence ? ct::ignored_label : static_cast<std::int32_t>(random() % 61);
    }
  }

  template <class trainer> ct::step_result step(trainer& t, std::size_t i) const {
    return t.step(t.batch(std::span(inputs).subspan(i * 96, 96), std::span(labels).subspan(i * 96, 96)));
  }
};

template <class trainer> std::vector<double> all_weights(trainer const& t) {
  std::vector<double> all;
  for (auto const& p : t.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span<double>(values));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

ct::run_options const run{.seed = 3, .clip_norm = 1, .dropout = 0.2};

template <class... policies> std::pair<std::vector<double>, std::vector<double>> train(int steps) {
  using trainer = ct::trainer<task, policies...>;
  batches const w(20);
  trainer t{{.learning_rate = 1e-2f}, run};
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(w.step(t, static_cast<std::size_t>(i)).loss);
  return {losses, all_weights(t)};
}

struct difference {
  double relative = 0; // of the worst tensor
  double key_bias = 0; // absolute, of what is zero by mathematics
};

// The gradients of one step, tensor by tensor.
template <class one, class other> difference gradient_difference(one& a, other& b) {
  batches const w(1);
  w.step(a, 0);
  w.step(b, 0);
  difference worst;
  for (auto const& p : a.parameters()) {
    std::vector<double> x(static_cast<std::size_t>(p.size())), y(x.size());
    a.gradient(p.name).copy_to(std::span<double>(x));
    b.gradient(p.name).copy_to(std::span<double>(y));
    double apart = 0, size = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      bool const key = p.name == "block.attention.qkv.bias" && i % 48 >= 16 && i % 48 < 32;
      if (key) {
        worst.key_bias = std::max({worst.key_bias, std::abs(x[i]), std::abs(y[i])});
        continue;
      }
      apart += (x[i] - y[i]) * (x[i] - y[i]);
      size += x[i] * x[i];
    }
    CAPTURE(std::string(p.name));
    CHECK(size > 0);
    worst.relative = std::max(worst.relative, std::sqrt(apart / size));
  }
  return worst;
}

} // namespace

TEST_CASE("checkpoint::every<k> and sqrt give the same bits as none over 20 steps with dropout") {
  auto const none = train<ct::checkpoint::none>(20);
  CHECK(train<ct::checkpoint::every<1>>(20) == none);
  CHECK(train<ct::checkpoint::every<2>>(20) == none);
  CHECK(train<ct::checkpoint::every<3>>(20) == none);
  CHECK(train<ct::checkpoint::every<7>>(20) == none);
  CHECK(train<ct::checkpoint::sqrt>(20) == none);
}

TEST_CASE("accumulate<4> of 2 sequences equals one batch of 8") {
  {
    ct::trainer<task> whole({.learning_rate = 0}, run);
    ct::trainer<small_task, ct::accumulate<4>> parts({.learning_rate = 0}, run);
    auto const d = gradient_difference(whole, parts);
    std::printf("accumulate, fp32: gradients %.1e, key bias %.1e\n", d.relative, d.key_bias);
    CHECK(d.relative <= 5e-6);
    CHECK(d.key_bias <= 1e-7);
  }
  {
    using fp64 = ct::precision::fp64;
    ct::trainer<task, fp64> whole({.learning_rate = 0}, run);
    ct::trainer<small_task, fp64, ct::accumulate<4>> parts({.learning_rate = 0}, run);
    auto const d = gradient_difference(whole, parts);
    std::printf("accumulate, fp64: gradients %.1e, key bias %.1e\n", d.relative, d.key_bias);
    CHECK(d.relative <= 1e-13);
    CHECK(d.key_bias <= 1e-15);
  }
}

TEST_CASE("accumulate<4> of 2 sequences trains to the weights of one batch of 8") {
  using fp64 = ct::precision::fp64;
  batches const w(20);
  ct::trainer<task, fp64> whole({.learning_rate = 1e-2f}, run);
  ct::trainer<small_task, fp64, ct::accumulate<4>, ct::checkpoint::every<2>> parts({.learning_rate = 1e-2f}, run);
  for (std::size_t i = 0; i < 20; ++i) {
    w.step(whole, i);
    w.step(parts, i);
  }
  double worst = 0;
  auto const mine = parts.parameters();
  std::size_t index = 0;
  for (auto const& p : whole.parameters()) {
    std::vector<double> x(static_cast<std::size_t>(p.size())), y(x.size());
    p.copy_to(std::span<double>(x));
    mine[index++].copy_to(std::span<double>(y));
    double apart = 0, size = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      // Adam divides a gradient that is only rounding error by its own size, so the key bias diverges.
      if (p.name == "block.attention.qkv.bias" && i % 48 >= 16 && i % 48 < 32) continue;
      apart += (x[i] - y[i]) * (x[i] - y[i]);
      size += x[i] * x[i];
    }
    CAPTURE(std::string(p.name));
    CHECK(std::sqrt(apart / size) <= 1e-10);
    worst = std::max(worst, std::sqrt(apart / size));
  }
  std::printf("accumulate, fp64: weights after 20 steps %.1e\n", worst);
}

#if defined(_OPENMP)
TEST_CASE("threads do not change a bit with the built-in GEMM") {
  auto const with = [](int threads) {
    omp_set_num_threads(threads);
    auto const result = train<ct::checkpoint::every<2>>(5);
    omp_set_num_threads(omp_get_num_procs());
    return result;
  };
  auto const one = with(1);
  bool const same = with(2) == one && with(4) == one;
  std::printf("%s: 1, 2 and 4 threads give %s\n", ct::gemm_provider(), same ? "the same bits" : "different bits");
  if (std::string_view(ct::gemm_provider()) == "built-in") CHECK(same);
}
#endif
