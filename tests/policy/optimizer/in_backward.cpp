#include "policy/small_gpt.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ct = constrain;
using namespace constrain::test;

namespace {

using ct::optimizer::adamw;
using ct::optimizer::averaged;
using ct::optimizer::in_backward;
template <class... policies> using trainer = ct::trainer<small_gpt, policies...>;

static_assert(ct::is_optimizer<in_backward<adamw>> && ct::updates_in_backward<in_backward<adamw>>);
static_assert(!ct::updates_in_backward<adamw>);
static_assert(std::is_same_v<in_backward<adamw>::hyper, adamw::hyper>);

// Three matrices, one after the other.
struct two_matrices {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("table", tokens, {.vocabulary = 4, .width = 4});
    return ct::linear("outer", ct::linear("inner", x, 4, {.bias = false}), 4, {.bias = false});
  }
};
using two_matrices_task = ct::task<two_matrices{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 4}>;

/// A copy without a gradient.
struct detached {
  static constexpr char const* name = "detached";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(ct::backward&) {}
};

/// A matrix that a repeat reads without a gradient, before an op that trains it.
struct detached_in_repeat {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("table", tokens, {.vocabulary = 32, .width = 8});
    auto const matrix = ct::parameter(x, "matrix", ct::shape(8, 8), ct::role::weight, {.stddev = 0.3});
    x = ct::repeat("block", 3, x, [matrix](ct::value y) {
      return y + ct::linear("out", ct::silu(ct::linear(y, ct::emit<detached>({matrix}))), 8);
    });
    return ct::linear("head", ct::linear(x, matrix), 32);
  }
};
using detached_task = ct::task<detached_in_repeat{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 8}>;

/// Bytes of the gradients that exist at the same time, at most.
template <class trainer> constexpr std::int64_t largest_gradients() {
  auto const& p = trainer::entries::step_program::final;
  auto const& where = trainer::entries::step::where;
  std::int64_t most = 0;
  for (int i = 0; i < p.nodes.size(); ++i) {
    std::int64_t alive = 0;
    for (int v = 0; v < p.values.size(); ++v) {
      auto const& b = where.buffers[v];
      if (p.values[v].role == ct::role::gradient && b.offset >= 0 && b.born <= i && i <= b.dies) alive += b.size;
    }
    most = alive > most ? alive : most;
  }
  return most;
}

// GPT-2 124M: memory for the gradients of one layer, or of the embedding, instead of all layers.
using gpt2_124m = ct::task<ct::gpt2{}, ct::causal_lm, ct::micro_batch{.sequences = 4, .tokens = 256}>;
template <class... policies> using large = ct::trainer<gpt2_124m, policies...>;
static_assert(largest_gradients<large<adamw>>() == 124'439'808 * 4);
static_assert(largest_gradients<large<in_backward<adamw>>>() == 163'838'976); // 156 MiB, as README.md says

/// Weights and states, as the trainer saves them.
template <class trainer> std::string bytes_of(trainer const& t) {
  temporary_directory const directory;
  t.save(directory / "run");
  return read_file(directory / "run/model.safetensors") + read_file(directory / "run/optimizer.safetensors");
}

/// Checks that two trainers have the same optimizer states, as they save them.
template <class a, class b> void check_same_states(a const& t, b const& expected) {
  temporary_directory const directory;
  t.save(directory / "a"), expected.save(directory / "b");
  auto const states = ct::io::safetensors_file::open(directory / "a/optimizer.safetensors");
  auto const wanted = ct::io::safetensors_file::open(directory / "b/optimizer.safetensors");
  for (auto const& state : wanted.tensors()) {
    if (state.name == "setting.clip_norm") continue;
    auto const* const same = states.find(state.name);
    CAPTURE(state.name);
    REQUIRE(same != nullptr);
    CHECK(std::equal(same->bytes.begin(), same->bytes.end(), state.bytes.begin(), state.bytes.end()));
  }
}

/// The weights of `detached_in_repeat` after 3 steps.
template <class... policies> std::vector<std::vector<double>> trained_detached() {
  ct::trainer<detached_task, policies...> t({.learning_rate = 1});
  for (int i = 0; i < 3; ++i) step(t, i);
  return weights(t);
}

/// Whether both optimizers give the same weights and states in 4 steps.
template <class optimizer, class... policies> void check_same_bits() {
  trainer<in_backward<optimizer>, policies...> t;
  trainer<optimizer, policies...> expected;
  for (int i = 0; i < 4; ++i) {
    auto const got = step(t, i), wanted = step(expected, i);
    CHECK(got.loss == wanted.loss);
    CHECK(got.gradient_norm == doctest::Approx(wanted.gradient_norm).epsilon(1e-12));
    CHECK(!got.skipped);
    CHECK(got.not_finite.empty());
  }
  CHECK(weights(t) == weights(expected));
  check_same_states(t, expected);
}

} // namespace

template <> struct ct::kernel<detached, ct::cpu> {
  template <class real> static void run(ct::call const&, ct::tensor<real const> x, ct::tensor<real> y) {
    std::copy_n(x.data, x.count, y.data);
  }
};

TEST_CASE("in_backward: the bits of its optimizer") {
  check_same_bits<adamw>();
  check_same_bits<ct::optimizer::sgd, ct::precision::fp64>();
  check_same_bits<averaged<adamw>, ct::precision::bf16>();
  check_same_bits<ct::optimizer::adafactor>();
  check_same_bits<ct::optimizer::muon<adamw>, ct::precision::bf16>();
  check_same_bits<ct::optimizer::adamw_8bit, ct::checkpoint::every<1>>();
}

TEST_CASE("in_backward: the bits of its optimizer with recomputation in segments, and with frozen parameters") {
  check_same_bits<adamw, ct::checkpoint::every<2>, ct::precision::bf16>();
  check_same_bits<ct::optimizer::lion, ct::checkpoint::sqrt, ct::freeze<ct::role::embedding>>();
  check_same_bits<ct::optimizer::by_role<adamw>, ct::freeze<ct::role::norm>>();
}

TEST_CASE("in_backward: recomputed iterations read a weight before its update") {
  using sgd = ct::optimizer::sgd;
  auto const expected = trained_detached<sgd>();
  CHECK(trained_detached<in_backward<sgd>, ct::checkpoint::every<1>>() == expected);
  CHECK(trained_detached<in_backward<sgd>, ct::checkpoint::sqrt>() == expected);
}

TEST_CASE("in_backward: a gradient that is not finite leaves its own tensor unchanged, and the step says which") {
  ct::trainer<two_matrices_task, in_backward<adamw>> t;
  // The products of both matrices are of order 1000, but the gradient of "inner" is beyond the largest float.
  float const of_matrix[] = {1e3f, 1e-37f, 1e37f};
  auto const all = t.parameters();
  REQUIRE(all.size() == 3);
  for (std::size_t p = 0; p < 3; ++p) {
    std::vector<float> x(static_cast<std::size_t>(all[p].size()));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 3 == 0 ? of_matrix[p] : 0;
    all[p].copy_from(std::span<float const>(x));
  }
  auto const before = weights(t);
  std::int32_t const tokens[] = {0, 1, 2, 3}, labels[] = {1, 2, 3, 0};
  auto const r = t.step(t.batch(tokens, labels));
  CHECK(!r.skipped);
  CHECK(r.not_finite == "inner.weight");
  CHECK(!std::isfinite(r.gradient_norm));
  CHECK(std::isfinite(r.loss));
  CHECK(t.state().skipped == 0);
  auto const after = weights(t);
  CHECK(after[0] != before[0]);
  CHECK(after[1] == before[1]);
  CHECK(after[2] != before[2]);
  for (double const m : values(t.state("inner.weight", "exp_avg"))) CHECK(m == 0);
}

TEST_CASE("in_backward: what needs all gradients is refused with a sentence") {
  CHECK(sentence([] { trainer<in_backward<adamw>> const t({}, {.clip_norm = 1}); }) ==
        "run_options: .clip_norm is 1, but optimizer::in_backward updates parameters before the norm of all gradients "
        "is known; set .clip_norm to 0, or train without in_backward");
  trainer<in_backward<adamw>> t;
  CHECK(!sentence([&] { t.set("clip_norm", 1); }).empty());
  step(t, 0);
  CHECK(sentence([&] { t.gradient(t.parameters()[0].name); }).find("in the backward pass") != std::string::npos);
}

TEST_CASE("in_backward: a resumed run continues bit-identically") {
  trainer<in_backward<adamw>> plain;
  temporary_directory const directory;
  step(plain, 0), step(plain, 1);
  plain.save(directory / "run");
  step(plain, 2);
  trainer<in_backward<adamw>> resumed;
  resumed.load(directory / "run");
  step(resumed, 2);
  CHECK(bytes_of(resumed) == bytes_of(plain));
  trainer<adamw> other;
  CHECK(sentence([&] { other.load(directory / "run"); }).find("in_backward<adamw>") != std::string::npos);
}
