#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

#include <array>
#include <cmath>
#include <cstring>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

// User code (Chen et al. 2023, algorithm 2).
struct lion {
  template <class real> struct state { real momentum; };
  struct hyper {
    float learning_rate = 1e-4f, beta1 = 0.9f, beta2 = 0.99f, weight_decay = 0;
  };
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, hyper const& h, ct::optimizer_step) {
    real const direction = real(h.beta1) * s.momentum + (1 - real(h.beta1)) * gradient;
    s.momentum = real(h.beta2) * s.momentum + (1 - real(h.beta2)) * gradient;
    real const sign = direction > 0 ? real(1) : direction < 0 ? real(-1) : real(0);
    return weight - real(h.learning_rate) * (sign + real(h.weight_decay) * weight);
  }
};
// The rate divided by the step, once a step rather than once a weight.
struct decaying_lion : lion {
  static hyper prepare(hyper h, ct::optimizer_step t) {
    h.learning_rate /= static_cast<float>(t.number);
    return h;
  }
};
// Two different fields, and `prepare` for a type of its own.
struct averaging {
  template <class real> struct state { real fast, slow; };
  struct hyper {
    float learning_rate = 0.1f;
  };
  template <class real> struct prepared { real rate, share; };
  template <class real> static prepared<real> prepare(hyper const& h, ct::optimizer_step t) {
    return {real(h.learning_rate), 1 / static_cast<real>(t.number)};
  }
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>& s, prepared<real> const& p,
                                    ct::optimizer_step) {
    s.fast = weight - p.rate * gradient;
    s.slow += p.share * (s.fast - s.slow);
    return s.fast;
  }
};
// Nothing but weight decay, and no state.
struct shrinking {
  template <class real> struct state {};
  struct hyper {
    float weight_decay = 0;
  };
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real, state<real>&, hyper const& h, ct::optimizer_step) {
    return weight - real(h.weight_decay) * weight;
  }
};

static_assert(ct::info_of<ct::op::update<ct::optimizer::adamw>>.gradient == nullptr);
static_assert(ct::info_of<ct::op::update<lion>>.gradient == nullptr);
static_assert(ct::op::state_fields<ct::optimizer::sgd>() == 0);
static_assert(ct::op::state_fields<ct::optimizer::momentum>() == 1);
static_assert(ct::op::state_fields<ct::optimizer::nesterov>() == 1);
static_assert(ct::op::state_fields<ct::optimizer::adamw>() == 2 && ct::op::state_fields<ct::optimizer::adam>() == 2);
static_assert(ct::op::state_fields<lion>() == 1 && ct::op::state_fields<averaging>() == 2);
constexpr auto operands = types({f32(shape(4, 3)), f64(shape(2)), {ct::dtype::u8, shape(20)}});
static_assert(ct::info_of<ct::op::update<ct::optimizer::sgd>>.infer(operands, {}).outputs.size() == 1);
static_assert(ct::info_of<ct::op::update<ct::optimizer::adamw>>.infer(operands, {}).outputs.size() == 3);
static_assert(ct::info_of<ct::op::update<ct::optimizer::adamw>>.infer(operands, {}).outputs[2] == f32(shape(4, 3)));

/// One parameter and its optimizer's state, updated by the kernel.
template <class optimizer, class real> struct trained {
  static constexpr int fields = ct::op::state_fields<optimizer>();

  array<real> weight;
  std::vector<array<real>> state;
  typename optimizer::hyper hyper{};
  bool decays = true;
  std::int64_t updates = 0;

  explicit trained(std::vector<double> const& start) : weight(shape(static_cast<std::int64_t>(start.size())), start) {
    for (int i = 0; i < fields; ++i) state.emplace_back(weight.in().shape(), std::vector<double>(start.size()));
  }
  void step(array<real> const& gradient, double scale = 1) {
    ct::op::step_hyperparameters<optimizer, real> const prepared(hyper, {++updates});
    array<std::uint8_t> numbers(shape(static_cast<std::int64_t>(sizeof prepared)));
    std::memcpy(numbers.out().data, &prepared, sizeof prepared);
    array<double> const norm_and_scale(shape(2), {1.0, scale});
    auto const options = ct::pack(ct::op::update_options{.decays = decays});
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      call_kernel<ct::op::update<optimizer>>(ct::call{options, no_parameters}, gradient.in(), norm_and_scale.in(),
                                             numbers.in(), weight.out(), state[i].out()...);
    }
    (std::make_index_sequence<static_cast<std::size_t>(fields)>{});
  }
};

template <class optimizer, class real>
void check_oracle(std::string const& name, typename optimizer::hyper const& hyper, double within) {
  CAPTURE(name);
  fixture const f("optimizers.safetensors");
  auto const all = f.reals("gradients"), expected = f.reals(name);
  trained<optimizer, real> t(f.reals("parameter"));
  t.hyper = hyper;
  for (std::ptrdiff_t step = 0; step < 10; ++step) {
    CAPTURE(step);
    t.step({shape(37), std::vector<double>(all.begin() + 37 * step, all.begin() + 37 * (step + 1))});
    std::vector<double> const now(expected.begin() + 37 * step, expected.begin() + 37 * (step + 1));
    CHECK(relative_error(t.weight.values(), now) < within);
    // Each element on its own: one of them moves by 1000, one by 1e-8.
    for (std::size_t i = 0; i < 37; ++i) {
      CHECK(std::abs(static_cast<double>(t.weight[i]) - now[i]) <= within * std::max(1.0, std::abs(now[i])));
    }
  }
}

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::layer_norm("norm", ct::embedding("token", tokens, {.vocabulary = 7, .width = 6}));
    return ct::linear("head", ct::repeat("block", 2, x, [](ct::value x) { return x + ct::linear("inner", x, 6); }), 5);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;
template <class optimizer> using trainer = ct::trainer<task, ct::precision::fp32, optimizer>;

// The plan holds what the state says.
static_assert(trainer<ct::optimizer::sgd>::memory.optimizer_state == ct::bytes(0));
static_assert(trainer<lion>::memory.optimizer_state == ct::bytes(4 * trainer<lion>::parameter_count));
static_assert(trainer<averaging>::memory.optimizer_state == ct::bytes(8 * trainer<lion>::parameter_count));

} // namespace

TEST_CASE_TEMPLATE("update: as PyTorch", real, float, double) {
  // A gradient of 1000 makes weights of 100 to 1000: floats are held to their own precision.
  double const within = std::is_same_v<real, double> ? 1e-12 : 1e-5;
  check_oracle<ct::optimizer::sgd, real>("sgd", {.learning_rate = 0.1f}, within);
  check_oracle<ct::optimizer::sgd, real>("sgd_decay", {.learning_rate = 0.1f, .weight_decay = 0.01f}, within);
  check_oracle<ct::optimizer::momentum, real>("momentum", {.learning_rate = 0.1f}, within);
  check_oracle<ct::optimizer::momentum, real>("momentum_decay", {.learning_rate = 0.1f, .weight_decay = 0.01f}, within);
  check_oracle<ct::optimizer::nesterov, real>("nesterov", {.learning_rate = 0.1f}, within);
  check_oracle<ct::optimizer::nesterov, real>("nesterov_decay", {.learning_rate = 0.1f, .weight_decay = 0.01f}, within);
  check_oracle<ct::optimizer::adamw, real>("adamw", {.learning_rate = 0.01f}, within);
  check_oracle<ct::optimizer::adamw, real>("adamw_decay", {.learning_rate = 0.01f, .weight_decay = 0.01f}, within);
  check_oracle<ct::optimizer::adam, real>("adam", {.learning_rate = 0.01f}, within);
  check_oracle<ct::optimizer::adam, real>("adam_decay", {.learning_rate = 0.01f, .weight_decay = 0.01f}, within);
}

TEST_CASE_TEMPLATE("update: a user's optimizer", real, float, double) {
  trained<lion, real> t({1, 1, 1, 1});
  t.hyper = {.learning_rate = 0.125f, .beta1 = 0.5f, .beta2 = 0.75f, .weight_decay = 0.5f};
  t.step({shape(4), {2, -2, 0, 8}});
  // w - 0.125 (sign + 0.5 w), m = 0.25 g
  CHECK(t.weight.values() == std::vector<real>{real(0.8125), real(1.0625), real(0.9375), real(0.8125)});
  CHECK(t.state[0].values() == std::vector<real>{real(0.5), real(-0.5), 0, 2});
  t.step({shape(4), {-1, 0, 0, -1}});
  // The sign of 0.5 m + 0.5 g: -, -, 0, +
  CHECK(t.weight[0] == real(0.8125 + 0.125 * (1 - 0.5 * 0.8125)));
  CHECK(t.weight[1] == real(1.0625 + 0.125 * (1 - 0.5 * 1.0625)));
  CHECK(t.weight[3] == real(0.8125 - 0.125 * (1 + 0.5 * 0.8125)));
}

TEST_CASE_TEMPLATE("update: prepare sees the step, the first is 1", real, float, double) {
  trained<decaying_lion, real> t({0});
  t.hyper = {.learning_rate = 1};
  t.step({shape(1), {1}});
  CHECK(t.weight[0] == -1);
  t.step({shape(1), {1}});
  CHECK(t.weight[0] == real(-1.5));
  t.step({shape(1), {1}});
  CHECK(t.weight[0] == doctest::Approx(-1.5 - 1 / 3.0));

  trained<averaging, real> a({4, 4});
  a.hyper = {.learning_rate = 1};
  a.step({shape(2), {2, 0}});
  a.step({shape(2), {2, 0}});
  CHECK(a.weight.values() == std::vector<real>{0, 4});
  CHECK(a.state[0].values() == std::vector<real>{0, 4});
  CHECK(a.state[1].values() == std::vector<real>{1, 4});
}

TEST_CASE("update: clipping scales the gradient, a scale of 0 changes nothing") {
  trained<ct::optimizer::momentum, double> t({1, 2});
  t.hyper = {.learning_rate = 1, .momentum = 0.5f, .weight_decay = 1};
  t.step({shape(2), {2.0, 4.0}}, 0.5);
  CHECK(t.weight.values() == std::vector<double>{-1, -2});
  auto const weight = t.weight.values(), velocity = t.state[0].values();
  t.step({shape(2), {std::nan(""), INFINITY}}, 0);
  CHECK(t.weight.values() == weight);
  CHECK(t.state[0].values() == velocity);
}

TEST_CASE("update: what does not decay does not") {
  trained<ct::optimizer::sgd, double> t({1});
  t.hyper = {.learning_rate = 0.5f, .weight_decay = 1};
  t.step({shape(1), {0.0}});
  CHECK(t.weight[0] == 0.5);
  t.decays = false;
  t.step({shape(1), {0.0}});
  CHECK(t.weight[0] == 0.5);
}

TEST_CASE("update: weight decay shrinks matrices and embeddings, not biases and norms") {
  trainer<shrinking> t({.weight_decay = 0.5f});
  for (auto const& p : t.parameters()) {
    std::vector<float> const ones(static_cast<std::size_t>(p.size()), 1.0f);
    p.copy_from(std::span<float const>(ones));
  }
  auto const w = random_batch::draw<trainer<shrinking>>(1);
  t.step(t.batch(w.inputs, w.labels));
  for (auto const& p : t.parameters()) {
    CAPTURE(std::string(p.name));
    std::vector<float> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span<float>(values));
    bool const decays = p.role == ct::role::weight || p.role == ct::role::embedding;
    for (float x : values) CHECK(x == (decays ? 0.5f : 1.0f));
  }
}

TEST_CASE("update: a user's optimizer trains") {
  trainer<lion> t({.learning_rate = 0.01f, .weight_decay = 0.5f});
  auto const w = random_batch::draw<trainer<lion>>(1);
  double const first = t.step(t.batch(w.inputs, w.labels)).loss;
  double last = first;
  for (int i = 0; i < 30; ++i) last = t.step(t.batch(w.inputs, w.labels)).loss;
  CHECK(last < 0.7 * first);
}

TEST_CASE("update: bit-identical on any number of threads") {
  auto const start = array<double>::random(shape(50000), 1).values();
  auto const gradient = array<float>::random(shape(50000), 2);
  check_same_on_all_threads([&] {
    trained<ct::optimizer::adamw, float> t(start);
    for (int i = 0; i < 3; ++i) t.step(gradient);
    return t.weight.values();
  });
}
