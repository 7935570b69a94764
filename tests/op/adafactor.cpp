#include "fixtures.hpp"
#include "op/call_kernel.hpp"
#include "policy/optimizer/gpt2_in_parts.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using ct::optimizer::adafactor, ct::optimizer::adafactor_relative_step, ct::optimizer::adafactor_with_momentum;

static_assert(ct::is_optimizer<adafactor> && ct::has_update_rule<adafactor> && !ct::has_update<adafactor>);
static_assert(ct::is_optimizer<adafactor_relative_step> && ct::is_optimizer<adafactor_with_momentum>);

static_assert(ct::info_of<ct::op::adafactor_factored<adafactor>>.gradient == nullptr);
static_assert(ct::info_of<ct::op::adafactor_unfactored<adafactor>>.gradient == nullptr);

template <class optimizer> constexpr bool has_momentum = std::is_same_v<optimizer, adafactor_with_momentum>;

/// One parameter and its states, updated by the kernels.
template <class optimizer, class real> struct trained {
  typename optimizer::hyper hyper{};
  array<real> weight;
  array<real> row, column, square, average; // column is empty if the parameter is not factored
  bool decays = true;
  std::int64_t updates = 0;

  trained(shape s, std::vector<double> const& start)
      : weight(s, start), row(zeros(s.rank < 2 ? shape(0) : s.without(s.rank - 1))),
        column(zeros(s.rank < 2 ? shape(0) : s.without(s.rank - 2))), square(zeros(s.rank < 2 ? s : shape(0))),
        average(zeros(s)) {}

  void step(array<real> const& gradient, double scale = 1) {
    ct::op::step_hyperparameters<optimizer, real> const prepared(hyper, {++updates});
    array<std::uint8_t> bytes(shape(static_cast<std::int64_t>(sizeof prepared)));
    std::memcpy(bytes.out().data, &prepared, sizeof prepared);
    array<double> const norm_and_scale(shape(2), {1.0, scale});
    auto const options = ct::pack(ct::op::update_options{.decays = decays});
    ct::call const c{options, no_parameters};
    array<real> new_weight(weight.in().shape()), new_average(weight.in().shape());
    if (weight.in().shape().rank < 2) {
      using op = ct::op::adafactor_unfactored<optimizer>;
      array<real> next(square.in().shape());
      if constexpr (has_momentum<optimizer>)
        call_kernel<op>(c, gradient.in(), norm_and_scale.in(), bytes.in(), weight.in(), square.in(), average.in(),
                        new_weight.out(), next.out(), new_average.out());
      else
        call_kernel<op>(c, gradient.in(), norm_and_scale.in(), bytes.in(), weight.in(), square.in(), new_weight.out(),
                        next.out());
      square = next;
    } else {
      using op = ct::op::adafactor_factored<optimizer>;
      array<real> next_row(row.in().shape()), next_column(column.in().shape()), factor(column.in().shape());
      if constexpr (has_momentum<optimizer>)
        call_kernel<op>(c, gradient.in(), norm_and_scale.in(), bytes.in(), weight.in(), row.in(), column.in(),
                        average.in(), new_weight.out(), next_row.out(), next_column.out(), factor.out(),
                        new_average.out());
      else
        call_kernel<op>(c, gradient.in(), norm_and_scale.in(), bytes.in(), weight.in(), row.in(), column.in(),
                        new_weight.out(), next_row.out(), next_column.out(), factor.out());
      row = next_row, column = next_column;
    }
    weight = new_weight;
    if constexpr (has_momentum<optimizer>) average = new_average;
  }

private:
  static array<real> zeros(shape s) { return {s, std::vector<double>(static_cast<std::size_t>(s.elements()))}; }
};

template <class optimizer, class real>
void check_oracle(std::string const& setting, typename optimizer::hyper const& hyper) {
  fixture const f("adafactor.safetensors");
  double const within = std::is_same_v<real, double> ? 1e-10 : 1e-5;
  for (std::string const name : {"square", "wide", "vector", "stack"}) {
    auto const key = setting + "." + name;
    CAPTURE(key);
    shape s;
    for (auto const extent : f.shape(name)) s.extent[s.rank++] = extent;
    auto const gradients = f.reals(name + ".gradients"), expected = f.reals(key);
    trained<optimizer, real> t(s, f.reals(name));
    t.hyper = hyper;
    auto part = expected.begin();
    for (int step = 0; step < 10; ++step) {
      auto const begin = gradients.begin() + step * s.elements();
      t.step({s, std::vector<double>(begin, begin + s.elements())});
      if (step != 0 && step != 1 && step != 9) continue; // the fixture has these
      CAPTURE(step);
      CHECK(relative_error(t.weight.values(), std::vector<double>(part, part + s.elements())) < within);
      part += s.elements();
    }
    if (s.rank >= 2) {
      CHECK(relative_error(t.row.values(), f.reals(key + ".exp_avg_sq_row")) < within);
      CHECK(relative_error(t.column.values(), f.reals(key + ".exp_avg_sq_col")) < within);
    } else CHECK(relative_error(t.square.values(), f.reals(key + ".exp_avg_sq")) < within);
    CHECK(f.has(key + ".exp_avg") == has_momentum<optimizer>);
    if (has_momentum<optimizer>) CHECK(relative_error(t.average.values(), f.reals(key + ".exp_avg")) < within);
  }
}

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::layer_norm("norm", ct::embedding("token", tokens, {.vocabulary = 7, .width = 6}));
    return ct::linear("head", ct::repeat("block", 5, x, [](ct::value x) { return x + ct::linear("inner", x, 6); }), 5);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;
template <class optimizer, class... policies> using trainer = ct::trainer<task, optimizer, policies...>;

// Of matrices, rows + columns: token [7, 6], five of inner [6, 6], head [5, 6]; of vectors, all elements: two of the
// norm, five biases of inner, and the bias of the head.
constexpr std::int64_t states = (7 + 6) + 5 * (6 + 6) + (5 + 6) + 2 * 6 + 5 * 6 + 5;
static_assert(trainer<adafactor>::memory.optimizer_state == ct::bytes(4 * states));
static_assert(trainer<adafactor_relative_step>::memory.optimizer_state == ct::bytes(4 * states));
static_assert(trainer<adafactor_with_momentum>::memory.optimizer_state ==
              ct::bytes(4 * (states + trainer<adafactor>::parameter_count)));
static_assert(trainer<adafactor, ct::precision::fp64>::memory.optimizer_state == ct::bytes(8 * states));

template <class trainer> ct::step_result step(trainer& t, int number) {
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens)), labels(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = static_cast<std::int32_t>((i * 3 + static_cast<std::size_t>(number)) % 7);
    labels[i] = static_cast<std::int32_t>((i * 2 + static_cast<std::size_t>(number)) % 5);
  }
  return t.step(t.batch(inputs, labels));
}

/// The optimizer's part of a saved run, and the weights.
template <class trainer> std::string bytes_of(trainer const& t) {
  temporary_directory const directory;
  t.save(directory / "run");
  return read_file(directory / "run/model.safetensors") + read_file(directory / "run/optimizer.safetensors");
}

template <class view> std::vector<double> values_of(view const& v) {
  std::vector<double> values(static_cast<std::size_t>(v.size()));
  v.copy_to(std::span(values));
  return values;
}

/// A step of a trainer is the kernels' update of each tensor of the model with the trainer's gradients.
template <class optimizer> void check_trainer() {
  using double_trainer = trainer<optimizer, ct::precision::fp64>;
  typename optimizer::hyper const hyper{.epsilon2 = 0.25f, .weight_decay = 0.5f};
  double_trainer t{hyper, {.checked = true}};
  std::vector<trained<optimizer, double>> all;
  for (auto const& p : t.parameters()) {
    auto const values = values_of(p);
    auto const elements = p.shape().elements();
    for (std::int64_t i = 0; i < p.iterations(); ++i) {
      all.emplace_back(p.shape(),
                       std::vector<double>(values.begin() + i * elements, values.begin() + (i + 1) * elements));
      all.back().hyper = hyper;
      all.back().decays = ct::decays(p.role);
    }
  }
  for (int number = 0; number < 3; ++number) {
    step(t, number);
    std::size_t next = 0;
    for (auto const& p : t.parameters()) {
      CAPTURE(std::string(p.name));
      auto const gradient = values_of(t.gradient(p.name)), weights = values_of(p);
      auto const elements = p.shape().elements();
      for (std::int64_t i = 0; i < p.iterations(); ++i, ++next) {
        auto const part = [=](std::vector<double> const& from) {
          return std::vector<double>(from.begin() + i * elements, from.begin() + (i + 1) * elements);
        };
        all[next].step({p.shape(), part(gradient)});
        CHECK(same_bits(all[next].weight.values(), part(weights)));
      }
    }
  }
}

} // namespace

TEST_CASE_TEMPLATE("adafactor: as Transformers", real, float, double) {
  check_oracle<adafactor, real>("manual", {.learning_rate = 0.01f});
  check_oracle<adafactor, real>("manual_decay", {.learning_rate = 0.01f, .weight_decay = 0.1f});
  check_oracle<adafactor, real>("manual_unscaled",
                                {.learning_rate = 0.01f, .weight_decay = 0.1f, .scale_parameter = false});
  check_oracle<adafactor, real>(
      "manual_numbers",
      {.learning_rate = 0.01f, .epsilon1 = 0.01f, .epsilon2 = 0.5f, .clip_threshold = 0.25f, .decay_rate = -0.5f});
  check_oracle<adafactor_relative_step, real>("relative", {});
  check_oracle<adafactor_relative_step, real>("relative_warmup", {.weight_decay = 0.1f, .warmup_init = true});
  check_oracle<adafactor_relative_step, real>("relative_unscaled", {.scale_parameter = false});
  check_oracle<adafactor_with_momentum, real>("momentum", {.learning_rate = 0.01f});
  check_oracle<adafactor_with_momentum, real>(
      "momentum_decay", {.learning_rate = 0.01f, .beta1 = 0.5f, .weight_decay = 0.1f, .scale_parameter = false});
}

TEST_CASE("adafactor: the relative step size") {
  auto const rate = [](bool warmup, std::int64_t step) {
    return adafactor_relative_step::prepare({.warmup_init = warmup}, {step}).rate;
  };
  CHECK(rate(false, 1) == 0.01);
  CHECK(rate(false, 10000) == 0.01);
  CHECK(rate(false, 40000) == 0.005);
  CHECK(rate(true, 1) == 1e-6);
  CHECK(rate(true, 9999) == 1e-6 * 9999);
  CHECK(rate(true, 40000) == 0.005);
}

TEST_CASE_TEMPLATE("adafactor: bit-identical on any number of threads", real, float, double) {
  for (shape const s : {shape(300, 70), shape(3, 20000), shape(40000, 2), shape(50000), shape(3, 100, 50)}) {
    auto const start = array<double>::random(s, 1).values();
    auto const gradient = array<real>::random(s, 2);
    check_same_on_all_threads([&] {
      trained<adafactor_with_momentum, real> t(s, start);
      for (int i = 0; i < 3; ++i) t.step(gradient);
      return t.weight.values();
    });
  }
}

TEST_CASE("adafactor: the clip coefficient multiplies the gradient") {
  for (shape const s : {shape(5, 3), shape(7)}) {
    auto const start = array<double>::random(s, 1).values();
    auto const gradient = array<double>::random(s, 2);
    auto halved = gradient;
    for (std::size_t i = 0; i < gradient.values().size(); ++i) halved[i] = gradient[i] / 2;
    trained<adafactor, double> one(s, start), other(s, start);
    one.step(gradient), other.step(gradient);
    one.step(gradient, 0.5), other.step(halved);
    CHECK(relative_error(one.weight.values(), other.weight.values()) < 1e-15);
  }
}

TEST_CASE_TEMPLATE("adafactor: a gradient whose square overflows leaves weights and states finite", optimizer,
                   adafactor, adafactor_with_momentum) {
  for (shape const s : {shape(5, 3), shape(2, 5, 3), shape(7)}) {
    auto const gradient = array<float>::random(s, 2);
    auto large = gradient, largest = gradient;
    for (std::size_t i = 0; i < gradient.values().size(); ++i) {
      large[i] = 1e22f * gradient[i];
      largest[i] = std::copysign(std::numeric_limits<float>::max(), gradient[i]);
    }
    trained<optimizer, float> t(s, array<double>::random(s, 1).values());
    for (auto const& g : {gradient, large, largest, largest, gradient}) {
      auto const before = t.weight.values();
      t.step(g);
      for (auto const* const result : {&t.weight, &t.row, &t.column, &t.square, &t.average})
        for (auto const x : result->values()) CHECK(std::isfinite(x));
      if (t.updates < 5) CHECK(t.weight.values() != before);
    }
  }
}

TEST_CASE("adafactor: a trainer updates each tensor of the model") {
  check_trainer<adafactor>();
  check_trainer<adafactor_relative_step>();
  check_trainer<adafactor_with_momentum>();
}

TEST_CASE_TEMPLATE("adafactor: resumes bit-identically at every step; a gradient that is not finite changes nothing",
                   optimizer, adafactor, adafactor_relative_step, adafactor_with_momentum) {
  trainer<optimizer> t;
  temporary_directory const directory;
  constexpr int steps = 4;
  double first = 0;
  for (int i = 0; i < steps; ++i) {
    t.save(directory / "run" + std::to_string(i));
    auto const loss = step(t, i).loss;
    if (i == 0) first = loss;
  }
  auto const expected = bytes_of(t);
  for (int i = 0; i < steps; ++i) {
    trainer<optimizer> resumed;
    resumed.load(directory / "run" + std::to_string(i));
    for (int k = i; k < steps; ++k) step(resumed, k);
    CHECK(bytes_of(resumed) == expected);
  }
  for (float const wrong : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto bias = t.parameters().back();
    std::vector<float> values(static_cast<std::size_t>(bias.size()));
    bias.copy_to(std::span(values));
    auto spoiled = values;
    spoiled[0] = wrong;
    bias.copy_from(std::span<float const>(spoiled));
    CHECK(step(t, steps).skipped);
    bias.copy_from(std::span<float const>(values));
    CHECK(bytes_of(t) == expected);
  }
  for (int i = 0; i < 200; ++i) step(t, 0);
  CHECK(step(t, 0).loss < 0.95 * first);

  trainer<optimizer, ct::checkpoint::every<2>> recomputes;
  for (int i = 0; i < steps; ++i) step(recomputes, i);
  CHECK(bytes_of(recomputes) == expected);
}

TEST_CASE("adafactor: ten steps of a GPT-2 as Transformers with q, k and v as three tensors") {
  adafactor_with_momentum::hyper const hyper{.learning_rate = 0.01f, .weight_decay = 0.1f};
  // seen: 4.4e-16
  CHECK(difference_from_pytorch<adafactor_with_momentum>("adafactor.safetensors", hyper, 1e-10) <= 1e-10);
}

TEST_CASE("adafactor: an average of the weights leaves its bits alone") {
  trainer<adafactor_with_momentum> plain;
  trainer<ct::optimizer::averaged<adafactor_with_momentum>> averaged;
  for (int i = 0; i < 3; ++i) step(plain, i), step(averaged, i);
  for (std::size_t i = 0; i < plain.parameters().size(); ++i)
    CHECK(values_of(plain.parameters()[i]) == values_of(averaged.parameters()[i]));
}

TEST_CASE("adafactor: states in saved runs have Transformers' names") {
  trainer<adafactor_with_momentum> t;
  step(t, 0);
  auto const bytes = bytes_of(t);
  for (auto const* name : {"token.weight.exp_avg_sq_row", "block.inner.weight.exp_avg_sq_col",
                           "block.inner.bias.exp_avg_sq", "head.weight.exp_avg"})
    CHECK(bytes.find(name) != std::string::npos);
  CHECK(bytes.find("bias.exp_avg_sq_row") == std::string::npos);
}

TEST_CASE("adafactor: hyperparameters out of range are refused") {
  auto const refused = [](auto optimizer, auto const& hyper) {
    return sentence([&] { decltype(optimizer)::check(hyper); });
  };
  CHECK(refused(adafactor(), adafactor::hyper{.epsilon1 = 0}) ==
        "adafactor: .epsilon1 is 0; give a finite number above 0");
  CHECK(sentence([] { trainer<adafactor>({.epsilon1 = 0}); }) ==
        "adafactor: .epsilon1 is 0; give a finite number above 0");
  CHECK(refused(adafactor(), adafactor::hyper{.learning_rate = -1}) ==
        "adafactor: .learning_rate is -1; give a finite number of at least 0");
  CHECK(refused(adafactor(), adafactor::hyper{.clip_threshold = 0}) ==
        "adafactor: .clip_threshold is 0; give a finite number above 0");
  CHECK(refused(adafactor(), adafactor::hyper{.decay_rate = 0.5f}) ==
        "adafactor: .decay_rate is 0.5; give a finite number of at most 0");
  CHECK(refused(adafactor(), adafactor::hyper{.weight_decay = -1}) ==
        "adafactor: .weight_decay is -1; give a finite number of at least 0");
  CHECK(refused(adafactor_relative_step(), adafactor_relative_step::hyper{.epsilon2 = -1}) ==
        "adafactor_relative_step: .epsilon2 is -1; give a finite number of at least 0");
  CHECK(refused(adafactor_with_momentum(), adafactor_with_momentum::hyper{.beta1 = 1}) ==
        "adafactor_with_momentum: .beta1 is 1; give a number of at least 0 and below 1");
}
