#include "check_gradients.hpp"

#include <cmath>
#include <cstdio>

// Fused operations equal the operations that they replace.

namespace ct = constrain;

namespace {

// 384 rows a micro-batch: 8 chunks of logits.
using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 16, .vocabulary = 67, .context = 48}, ct::causal_lm,
                      ct::micro_batch{.sequences = 8}>;
template <class... list> using fused = ct::trainer<task, ct::fusion::all, list...>;
template <class... list> using separate = ct::trainer<task, ct::fusion::none, list...>;

std::vector<double> values_of(ct::tensor_view const& t) {
  std::vector<double> values(static_cast<std::size_t>(t.size()));
  t.copy_to(std::span<double>(values));
  return values;
}

// 10 steps with dropout and clipping, fused and not, in double.
template <class... list> void trains_the_same() {
  using one = fused<ct::precision::fp64, list...>;
  using other = separate<ct::precision::fp64, list...>;
  CAPTURE(one::policy_set::name());
  ct::run_options const run{.seed = 3, .clip_norm = 1, .dropout = 0.2};
  one a({.learning_rate = 1e-2f}, run);
  other b({.learning_rate = 1e-2f}, run);
  double worst_loss = 0, worst_gradient = 0;
  for (unsigned step = 0; step < 10; ++step) {
    auto const w = ct::test::random_batch::draw<one>(step);
    auto const x = a.step(a.batch(w.inputs, w.labels)), y = b.step(b.batch(w.inputs, w.labels));
    worst_loss = std::max(worst_loss, std::abs(x.loss - y.loss) / y.loss);
    CHECK(x.tokens == y.tokens);
    double apart = 0, size = 0; // of all gradients: a key's bias has one that is zero by mathematics
    for (auto const& p : a.parameters()) {
      auto const g = values_of(a.gradient(p.name)), h = values_of(b.gradient(p.name));
      for (std::size_t i = 0; i < g.size(); ++i) apart += (g[i] - h[i]) * (g[i] - h[i]), size += h[i] * h[i];
    }
    worst_gradient = std::max(worst_gradient, std::sqrt(apart / size));
  }
  auto const w = ct::test::random_batch::draw<one>(11);
  auto const batch = std::span(w.inputs).first(task::sequences * task::tokens);
  auto const labels = std::span(w.labels).first(batch.size());
  auto const x = a.evaluate(batch, labels), y = b.evaluate(batch, labels);
  CHECK(std::abs(x.loss - y.loss) <= 1e-12 * y.loss);
  CHECK(x.accuracy == y.accuracy);
  CHECK(x.tokens == y.tokens);
  std::printf("fused, %s: losses %.1e, gradients %.1e apart\n", one::policy_set::name().c_str(), worst_loss,
              worst_gradient);
  CHECK(worst_loss <= 1e-12);
  CHECK(worst_gradient <= 1e-10);
}

// A vocabulary beside which the rest is small: the loop spares all logits but a chunk, which is an eighth of the rows.
using wide = ct::task<ct::gpt2{.layers = 2, .heads = 1, .width = 16, .vocabulary = 8192, .context = 96}, ct::causal_lm,
                      ct::micro_batch{.sequences = 4}>;
template <class... list> constexpr bool spares_the_logits() {
  using one = typename ct::trainer<wide, ct::fusion::all, list...>::entries;
  using other = typename ct::trainer<wide, ct::fusion::none, list...>::entries;
  auto const bytes = one::logits.elements() * 4;
  auto const spared = [&](std::int64_t with, std::int64_t without) {
    return 100 * (without - with) >= 99 * (bytes - bytes / 8);
  };
  return spared(one::step::where.end, other::step::where.end) &&
         spared(one::evaluate::where.end, other::evaluate::where.end) &&
         spared((one::memory.activations + one::memory.workspace).count(),
                (other::memory.activations + other::memory.workspace).count());
}
static_assert(spares_the_logits<>());
static_assert(spares_the_logits<ct::accumulate<2>, ct::checkpoint::every<1>>());

} // namespace

TEST_CASE("fused and separate operations train the same") {
  trains_the_same<>();
  trains_the_same<ct::accumulate<3>>();
  trains_the_same<ct::checkpoint::every<2>>();
  trains_the_same<ct::accumulate<3>, ct::checkpoint::every<2>>();
}

TEST_CASE("fused: planned bytes are the bytes that are touched, and fewer") {
  using trainer = ct::trainer<wide, ct::fusion::all, ct::checkpoint::every<1>, ct::accumulate<2>>;
  auto const w = ct::test::random_batch::draw<trainer>(1);
  trainer t{{}, {.dropout = 0.1, .measure_memory = true}};
  auto const batch = std::span(w.inputs).first(wide::sequences * wide::tokens);
  t.step(t.batch(w.inputs, w.labels));
  t.evaluate(batch, std::span(w.labels).first(batch.size()));
  t.predict(batch);
  t.generate(batch.first(3), 1);
  CHECK(t.used_bytes() == trainer::memory.peak);
}
