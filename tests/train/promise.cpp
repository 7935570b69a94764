// Every example program of the design, compiled, and run at a small size.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "temporary_directory.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace ct = constrain;

// What a user writes

namespace front_page {

using task = ct::task<ct::gpt2{.layers = 6, .heads = 6, .width = 384, .vocabulary = 256, .context = 256}, ct::causal_lm,
                      ct::micro_batch{.sequences = 8}>;                      // .tokens defaults to the context
using trainer = ct::trainer<task, ct::precision::bf16, ct::optimizer::adamw, // policies: any order, each at most once
                            ct::accumulate<4>, ct::checkpoint::every<2>>;
static_assert(trainer::memory.peak <= ct::mebibytes(700)); // known before it ever runs

// Too long for a test: only compiled.
[[maybe_unused]] void program() {
  trainer t{{.learning_rate = 3e-4f, .weight_decay = 0.1f},
            {.seed = 42}}; // the optimizer's hyperparameters; the run's numbers
  ct::fit(t, ct::data::text("corpus.txt"), {.steps = 500});
  std::puts(t.generate("template <", 200).c_str());
}

// The order of policies means nothing, and tokens default to the context.
static_assert(task::tokens == 256);
static_assert(trainer::memory.peak == ct::trainer<task, ct::checkpoint::every<2>, ct::accumulate<4>,
                                                  ct::optimizer::adamw, ct::precision::bf16>::memory.peak);
static_assert(trainer::parameter_count == 10'844'160);
// fp32: 4 bytes a weight, no master; bf16: 2 and 4, but for biases and norms.
using single = ct::trainer<task, ct::accumulate<4>, ct::checkpoint::every<2>>;
static_assert(single::memory.weights == ct::bytes(4 * trainer::parameter_count));
static_assert(single::memory.master_weights == ct::bytes(0));
static_assert(2 * (trainer::memory.weights.count() -
                   (4 * trainer::parameter_count - trainer::memory.master_weights.count())) ==
              trainer::memory.master_weights.count());
static_assert(trainer::memory.gradients == ct::bytes(4 * trainer::parameter_count));
static_assert(trainer::memory.optimizer_state.count() == 8 * trainer::parameter_count);
static_assert(trainer::memory.communication == ct::bytes(0) && trainer::memory.offloaded == ct::bytes(0));
static_assert(trainer::memory.activations > ct::bytes(0) && trainer::memory.workspace > ct::bytes(0));
static_assert(trainer::flops > 0 && trainer::bytes_moved > 0 && trainer::kernel_launches > 0 &&
              trainer::collectives == 0);

} // namespace front_page

namespace {

// The same, small enough to run.
using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 16, .vocabulary = 256, .context = 16}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using trainer =
    ct::trainer<task, ct::precision::fp32, ct::optimizer::adamw, ct::accumulate<4>, ct::checkpoint::every<2>>;

ct::data::corpus text() {
  std::string words;
  for (int i = 0; i < 400; ++i) words += "template <class real> struct number" + std::to_string(i % 7) + ";\n";
  return ct::data::text_from(words);
}

// A user's layer, model, optimizer, element-wise operation and objective.

struct gated_mlp {
  int hidden;
  constexpr ct::value operator()(ct::value x) const {
    auto gate = ct::silu(ct::linear("gate_proj", x, hidden));
    auto up = ct::linear("up_proj", x, hidden);
    return ct::linear("down_proj", gate * up, x.features());
  }
};
struct tagger {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    x = ct::repeat("block", 3, x,
                   [](ct::value x) { return x + ct::apply("mlp", gated_mlp{128}, ct::layer_norm("norm", x)); });
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};
using tagging = ct::task<tagger{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;

struct lion {
  template <class real> struct state { real momentum; };
  struct hyper {
    float learning_rate = 1e-4f, beta1 = 0.9f, beta2 = 0.99f, weight_decay = 0;
  };
  // Optional: static hyper prepare(hyper, ct::optimizer_step), once a step, for what depends on the step alone.
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, hyper const& h, ct::optimizer_step t);
};

// Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", program 1.
template <class real>
CT_HOST_DEVICE real lion::update(real weight, real gradient, state<real>& s, hyper const& h, ct::optimizer_step) {
  real const mixed = h.beta1 * s.momentum + (1 - h.beta1) * gradient;
  real const direction = real(mixed > 0) - real(mixed < 0);
  s.momentum = h.beta2 * s.momentum + (1 - h.beta2) * gradient;
  return weight - h.learning_rate * (direction + h.weight_decay * weight);
}

// With the optional `prepare`: the learning rate of step t is a t-th of the first.
struct fading {
  template <class real> struct state {};
  struct hyper {
    float learning_rate = 0.5f;
  };
  static hyper prepare(hyper h, ct::optimizer_step t) { return {h.learning_rate / static_cast<float>(t.number)}; }
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>&, hyper const& h, ct::optimizer_step) {
    return weight - h.learning_rate * gradient;
  }
};

struct own_causal_lm {
  constexpr ct::value operator()(ct::value logits, ct::value labels) const { return ct::cross_entropy(logits, labels); }
};
struct softcap {
  template <class real> CT_HOST_DEVICE static real forward(real x) { return 30 * tanh(x / 30); }
  template <class real> CT_HOST_DEVICE static real gradient(real, real y, real dy) {
    return dy * (1 - (y / 30) * (y / 30));
  }
};

/// Every operation that the design names and the programs above do not use.
struct capped {
  int context = 8;
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 256, .width = 8});
    x = ct::gelu(ct::linear("one", x, 8)) + ct::gelu_tanh(ct::linear("two", ct::dropout(x), 8));
    auto const logits = ct::linear("head", x, 256);
    auto capped = ct::elementwise<softcap>(logits);
    return capped;
  }
};

} // namespace

TEST_CASE("the front page runs") {
  trainer t{{.learning_rate = 3e-4f, .weight_decay = 0.1f}, {.seed = 42}};
  auto const result = ct::fit(t, text(), {.steps = 3, .log = nullptr});
  CHECK(result.steps == ct::optimizer_steps(3));
  auto const generated = t.generate("template <", 20);
  CHECK(generated.size() == 30);
  CHECK(generated.starts_with("template <"));
}

TEST_CASE("one's own loop") {
  ct::test::temporary_directory const directory;
  auto const corpus = text();
  trainer t{{.learning_rate = 1e-2f},
            {.seed = 1, .clip_norm = 1, .schedule = ct::schedule::cosine{.warmup = 100, .steps = 500}, .dropout = 0.1}};
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens), 7), labels(inputs.size(), 8);

  for (auto const& batch : t.batches(
           corpus)) { // N micro-batches; order and position belong to the trainer's state: saved and resumed with it
    auto r = t.step(batch); // one update; r.loss, r.gradient_norm, r.tokens, r.skipped
    CHECK(std::isfinite(r.loss));
    CHECK(r.gradient_norm > 0);
    CHECK(r.tokens == trainer::batch_tokens);
    CHECK(!r.skipped);
    static_assert(std::is_same_v<decltype(r.loss), double>);
    if (t.steps() >= ct::optimizer_steps(5)) break;
  }
  auto const saved = directory / "checkpoint";
  t.save(saved);
  auto r = t.step(t.batch(inputs, labels)); // one's own arrays: spans, checked for length and range
  trainer resumed;
  resumed.load(saved);
  CHECK(resumed.steps() == ct::optimizer_steps(5));
  CHECK(r.tokens == static_cast<std::int64_t>(labels.size()));

  auto const one =
      std::span<std::int32_t const>(inputs).first(static_cast<std::size_t>(task::sequences * task::tokens));
  auto y = t.predict(one);
  CHECK(y.shape == ct::shape(2, 16, 256));
  CHECK(static_cast<std::int64_t>(y.logits.size()) == y.shape.elements());

  auto const e = t.evaluate(corpus);
  CHECK(e.perplexity == doctest::Approx(std::exp(e.loss)));
  CHECK(e.accuracy >= 0);
  CHECK(e.tokens > 0);
}

TEST_CASE("one's own layer and model") {
  using trainer = ct::trainer<tagging, ct::optimizer::sgd>;
  trainer t{{.learning_rate = 0.1f}};
  std::vector<std::int32_t> inputs(8 * 32), labels(8);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<std::int32_t>(i % 97);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 4);
  labels[3] = -100;
  auto const first = t.step(t.batch(inputs, labels));
  CHECK(first.tokens == 7);

  bool found = false;
  for (auto p : t.parameters()) {
    if (p.name != "block.mlp.gate_proj.weight") continue;
    found = true;
    CHECK(p.shape() == ct::shape(128, 64));
    CHECK(p.role == ct::role::weight);
    CHECK(p.iterations() == 3);
    std::vector<float> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(values));
    CHECK(std::any_of(values.begin(), values.end(), [](float x) { return x != 0; }));
  }
  CHECK(found);
  CHECK(t.gradient("block.mlp.gate_proj.weight").size() == 3 * 128 * 64);
  CHECK_THROWS_AS(t.gradient("block.mlp.gate_proj"), ct::error);
  static_assert(std::is_base_of_v<std::runtime_error, ct::error>);

  double last = 0;
  for (int i = 0; i < 20; ++i) last = t.step(t.batch(inputs, labels)).loss;
  CHECK(last < first.loss);
  CHECK(t.predict(inputs).shape == ct::shape(8, 4));
}

TEST_CASE("one's own optimizer, objective and element-wise operation") {
  using capped_task = ct::task<capped{}, own_causal_lm, ct::micro_batch{.sequences = 2}>;
  using trainer = ct::trainer<capped_task, lion>;
  static_assert(trainer::memory.optimizer_state == trainer::memory.weights); // one real a weight
  trainer t{{.learning_rate = 1e-2f}, {.dropout = 0.1}};
  auto const corpus = text();
  auto const before = t.evaluate(corpus).loss;
  ct::fit(t, corpus, {.steps = 20, .log = nullptr});
  CHECK(t.evaluate(corpus).loss < before);

  // Greedy generation is the same every time; sampling has a seed, and slides over longer contexts.
  CHECK(t.generate("struct", 12, {.temperature = 0}) == t.generate("struct", 12, {.temperature = 0, .seed = 9}));
  CHECK(t.generate("struct", 12, {.temperature = 1, .top_k = 5, .seed = 3}).size() == 18);

  using fading_trainer = ct::trainer<capped_task, fading>;
  static_assert(fading_trainer::memory.optimizer_state == ct::bytes(0));
  fading_trainer f;
  auto const first_weights = [&] {
    std::vector<float> weights(static_cast<std::size_t>(f.parameters()[0].size()));
    f.parameters()[0].copy_to(std::span(weights));
    return weights;
  };
  // Twice the same batch: the second update is half of what its gradient says.
  std::vector<std::int32_t> inputs(16, 3), labels(16, 4);
  f.step(f.batch(inputs, labels));
  auto const weights = first_weights();
  f.step(f.batch(inputs, labels));
  auto const moved = first_weights();
  std::vector<float> gradient(weights.size());
  f.gradient(f.parameters()[0].name).copy_to(std::span(gradient));
  for (std::size_t i = 0; i < weights.size(); ++i) CHECK(moved[i] == doctest::Approx(weights[i] - 0.25f * gradient[i]));
}

TEST_CASE("comparing strategies is one call") {
  auto const corpus = text();
  auto const rows =
      ct::compare<task, ct::policies<ct::precision::fp32>, ct::policies<ct::precision::fp32, ct::checkpoint::every<1>>>(
          corpus, {.tokens = 1'000});
  REQUIRE(rows.size() == 2);
  for (auto const& row : rows) {
    CHECK(row.tokens_per_second > 0);
    CHECK(row.used_peak == row.planned_peak);
    CHECK(std::isfinite(row.loss));
  }
  CHECK(rows[0].name == "fp32, adamw");
  CHECK(rows[0].loss == rows[1].loss);
  CHECK(ct::table(rows).find("tokens/s") != std::string::npos);
  CHECK(ct::json(rows).starts_with("["));
  CHECK(ct::explanation<trainer>().find("memory") != std::string::npos);
}

// The design's other optimizers and presets are types of their own.
static_assert(!std::is_same_v<ct::optimizer::momentum, ct::optimizer::nesterov>);
static_assert(ct::optimizer_steps(3) == ct::optimizer_steps(3));
static_assert(!std::is_convertible_v<ct::optimizer_steps, ct::micro_steps>);
