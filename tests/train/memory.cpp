#include "check_gradients.hpp"
#include "sanitizers.hpp"

#include <sys/resource.h>

// The plan is the truth: planned bytes are the bytes that are touched.

namespace ct = constrain;

namespace {

template <int layers, int width, int sequences>
using gpt = ct::task<ct::gpt2{.layers = layers, .heads = 2, .width = width, .vocabulary = 67, .context = 24},
                     ct::causal_lm, ct::micro_batch{.sequences = sequences}>;

struct tagger {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 67, .width = 24});
    x = ct::repeat("block", 5, x,
                   [](ct::value x) { return x + ct::silu(ct::linear("up", ct::layer_norm("norm", x), 24)); });
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 5);
  }
};
using classifier = ct::task<tagger{}, ct::classification, ct::micro_batch{.sequences = 3, .tokens = 17}>;

// Every entry is run; the last byte touched must be the last byte planned.
template <class task, class... policies> void plan_is_used() {
  using trainer = ct::trainer<task, policies...>;
  auto const w = ct::test::random_batch::draw<trainer>(1);
  trainer t{{}, {.dropout = ct::test::dropout_if_any<trainer>(0.1), .measure_memory = true}};
  auto const batch = std::span(w.inputs).first(static_cast<std::size_t>(task::sequences * task::tokens));
  t.step(t.batch(w.inputs, w.labels));
  CAPTURE(trainer::policy_set::name());
  CHECK(t.used_bytes() <= trainer::memory.peak);
  t.predict(batch);
  t.evaluate(batch, std::span(w.labels).first(static_cast<std::size_t>(trainer::entries::labels)));
  if constexpr (trainer::entries::logits.rank == 3) t.generate(batch.first(3), 2);
  CHECK(t.used_bytes() == trainer::memory.peak);
  auto const& m = trainer::memory;
  CHECK(m.weights + m.gradients + m.optimizer_state + m.activations + m.workspace - m.shared <= m.peak);
}

} // namespace

TEST_CASE("planned bytes are the bytes that are touched") {
  plan_is_used<gpt<5, 16, 2>>();
  plan_is_used<gpt<5, 16, 2>, ct::accumulate<3>>();
  plan_is_used<gpt<5, 16, 2>, ct::checkpoint::every<1>>();
  plan_is_used<gpt<5, 16, 2>, ct::checkpoint::every<2>, ct::accumulate<2>>();
  plan_is_used<gpt<5, 16, 2>, ct::checkpoint::every<3>, ct::optimizer::sgd>();
  plan_is_used<gpt<5, 16, 2>, ct::checkpoint::every<9>, ct::optimizer::momentum>();
  plan_is_used<gpt<1, 10, 1>, ct::precision::fp64>();
  plan_is_used<classifier>();
  plan_is_used<classifier, ct::accumulate<2>, ct::checkpoint::every<2>, ct::precision::fp64>();
}

namespace {

using adamw = ct::trainer<gpt<3, 16, 2>>;
using sgd = ct::trainer<gpt<3, 16, 2>, ct::optimizer::sgd>;
using once = ct::trainer<gpt<3, 16, 2>, ct::accumulate<1>, ct::checkpoint::none>;
using doubled = ct::trainer<gpt<3, 16, 2>, ct::precision::fp64>;

// fp32 and AdamW: 4 bytes of weight, 4 of gradient, 8 of state.
static_assert(adamw::memory.weights.count() == 4 * adamw::parameter_count);
static_assert(adamw::memory.gradients.count() == 4 * adamw::parameter_count);
static_assert(adamw::memory.optimizer_state.count() == 8 * adamw::parameter_count);
static_assert(doubled::memory.weights.count() + doubled::memory.gradients.count() +
                  doubled::memory.optimizer_state.count() ==
              32 * doubled::parameter_count);
// Unused features take no memory.
static_assert(sgd::memory.optimizer_state.count() == 0);
static_assert(adamw::memory.master_weights.count() == 0);
static_assert(once::memory.peak == adamw::memory.peak);
static_assert(ct::trainer<gpt<3, 16, 2>, ct::checkpoint::every<1>>::memory.peak < adamw::memory.peak);

// By role: every parameter's bytes, and the same again for its gradient and twice for its state.
template <class trainer> constexpr bool exact_by_role() {
  std::int64_t total = 0;
  for (int i = 0; i < trainer::entries::parameters.size; ++i) {
    auto const& p = trainer::entries::parameters.parameters[i];
    total += 16 * p.elements();
    int states = 0;
    for (auto const& state : trainer::entries::parameters.states) states += state.parameter == i ? 1 : 0;
    if (p.gradient_offset < 0 || states != 2) return false;
  }
  auto const& m = trainer::memory;
  return total == (m.weights + m.gradients + m.optimizer_state).count();
}
static_assert(exact_by_role<adamw>());

} // namespace

TEST_CASE("the process needs the plan, its provider and itself") {
  using trainer =
      ct::trainer<ct::task<ct::gpt2{.layers = 4, .heads = 4, .width = 256, .vocabulary = 256, .context = 128},
                           ct::causal_lm, ct::micro_batch{.sequences = 4}>>;
  auto const peak = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss * 1024;
  };
  auto const before = peak();
  auto const w = ct::test::random_batch::draw<trainer>(1);
  trainer t;
  for (int i = 0; i < 3; ++i) t.step(t.batch(w.inputs, w.labels));
  auto const grown = peak() - before;
  std::printf("process: %ld bytes before, %ld more; plan %ld; provider (%s) and the rest %ld\n", before, grown,
              trainer::memory.peak.count(), ct::gemm_provider(), grown - trainer::memory.peak.count());
  // The arena is rounded up to huge pages; what the provider adds is bounded.
  if (ct::test::under_sanitizer) MESSAGE("a sanitizer's memory beside the program's is not bounded: not checked");
  else CHECK(grown <= trainer::memory.peak.count() + (64 << 20));
}
