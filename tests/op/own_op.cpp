// An op and an objective of a user's own, written as the library's own are: the function, the shape, cost and gradient
// rule, the kernels. Nothing in the library knows them.

#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

#include <algorithm>
#include <cmath>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace own {

/// dx and dweight of rms_norm from dy, x, weight and each row's scale. Sums are taken in the accumulating type.
struct rms_norm_gradient {
  static constexpr char const* name = "rms_norm_gradient";
  static constexpr unsigned accumulating = 0b10;

  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[1].type, in[1].shape).and_also(ct::accumulator_of(in[1].type), in[2].shape);
  }
  static constexpr ct::cost cost_of(ct::operand_types const& in, ct::operand_types const& out) {
    auto result = ct::cost_by_operands(in, out);
    result.flops = 10.0 * static_cast<double>(in[1].shape.elements());
    return result;
  }
};

/// y = x / sqrt(mean(x^2) + epsilon) * weight over the innermost dimension (Zhang & Sennrich 2019, eq. 4); each row's
/// factor is kept for the backward pass.
struct rms_norm {
  struct options {
    double epsilon = 1e-6; // added to the mean square
  };
  static constexpr char const* name = "rms_norm";
  static constexpr unsigned in_place = 0b1;

  static constexpr ct::inferred infer(ct::operand_types const& in) {
    if (in[0].shape.features() != in[1].shape.features())
      return ct::inferred::failure<ct::op::widths_differ>(in[1].shape.features(), in[0].shape.features());
    return ct::inferred::one(in[0].type, in[0].shape)
        .and_also(ct::accumulator_of(in[0].type), shape(in[0].shape.rows()));
  }
  static constexpr ct::cost cost_of(ct::operand_types const& in, ct::operand_types const& out) {
    auto result = ct::cost_by_operands(in, out);
    result.flops = 4.0 * static_cast<double>(in[0].shape.elements());
    return result;
  }
  static constexpr void gradient(ct::backward& b) {
    b.emit<rms_norm_gradient>({b.gradient(), b.input(0), b.input(1), b.output(1)}, {0, 1});
  }
};

/// x [..., width] with root mean square 1, scaled by the parameter "name.weight" [width], which starts at 1.
constexpr ct::value rms_normalised(std::string_view name, ct::value x, rms_norm::options options = {},
                                   int line = __builtin_LINE()) {
  ct::scope const inside(x.owner(), name, line);
  auto const weight = ct::parameter(x, "weight", shape(x.features()), ct::role::norm, {.constant = 1}, line);
  return ct::emit<rms_norm>({x, weight}, options, line);
}

struct squared_error_gradient {
  static constexpr char const* name = "squared_error_gradient";
  static constexpr unsigned in_place = 0b10;

  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[1].type, in[1].shape);
  }
};

/// The mean over the batch's valid labels of |logits - one_hot(label)|^2 / 2 (Brier 1950).
struct squared_error {
  static constexpr char const* name = "squared_error";
  static constexpr unsigned accumulating = 0b1;

  template <ct::diagnosis d> struct labels_do_not_fit {
    static_assert(d.ok(),
                  "squared_error needs one integer label per row of logits; give it `expected` labels, not `got`");
  };

  static constexpr ct::inferred infer(ct::operand_types const& in) {
    auto const labels = in[0].shape.without(in[0].shape.rank - 1);
    if (in[1].type != ct::dtype::i32 || in[1].shape != labels)
      return ct::inferred::failure<labels_do_not_fit>(labels.elements(), in[1].shape.elements());
    return ct::inferred::one(ct::dtype::f64, {});
  }
  static constexpr void gradient(ct::backward& b) {
    b.emit<squared_error_gradient>({b.gradient(), b.input(0), b.input(1), b.input(2)}, {0});
  }
};

struct brier_score {
  constexpr ct::value operator()(ct::value logits, ct::value labels) const {
    return ct::emit<squared_error>({logits, labels, ct::inverse_label_count(labels)});
  }
};

} // namespace own

// The kernels.

template <> struct constrain::kernel<own::rms_norm, constrain::cpu> {
  template <class stored, class accumulate>
  static void run(call_of<own::rms_norm> const& c, tensor<stored const> x, tensor<accumulate const> weight,
                  tensor<stored> y, tensor<accumulate> factor) {
    auto const width = x.features();
    auto const epsilon = static_cast<accumulate>(c.options.epsilon);
    parallel_for(x.rows(), [=](std::int64_t row) {
      stored const* from = x.data + row * width;
      auto const square = [=](std::int64_t i) { return accumulate(from[i]) * accumulate(from[i]); };
      accumulate const squares = ordered_sum<accumulate>(0, width, square);
      accumulate const r = 1 / std::sqrt(squares / static_cast<accumulate>(width) + epsilon);
      for (std::int64_t i = 0; i < width; ++i)
        y[row * width + i] = static_cast<stored>(accumulate(from[i]) * r * weight[i]);
      factor[row] = r;
    });
  }
};

template <> struct constrain::kernel<own::rms_norm_gradient, constrain::cpu> {
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> x, tensor<accumulate const> weight,
                  tensor<accumulate const> factor, tensor<stored> dx, tensor<accumulate> dweight) {
    auto const width = x.features();
    if (!c.add_to(1)) std::fill_n(dweight.data, width, accumulate(0));
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      stored const* from = x.data + row * width;
      stored const* g = dy.data + row * width;
      accumulate const r = factor[row];
      auto const term = [=](std::int64_t i) { return accumulate(g[i]) * weight[i] * accumulate(from[i]); };
      accumulate const share = r * r * ordered_sum<accumulate>(0, width, term) / static_cast<accumulate>(width);
      for (std::int64_t i = 0; i < width; ++i) {
        dweight[i] += accumulate(g[i]) * accumulate(from[i]) * r;
        dx[row * width + i] = static_cast<stored>(r * (accumulate(g[i]) * weight[i] - accumulate(from[i]) * share));
      }
    }
  }
};

template <> struct constrain::kernel<own::squared_error, constrain::cpu> {
  template <class real>
  static void run(call const& c, tensor<real const> logits, tensor<std::int32_t const> labels,
                  tensor<double const> inverse_count, tensor<double> loss) {
    auto const classes = logits.features();
    double sum = 0;
    for (std::int64_t i = 0; i < logits.count; ++i) {
      auto const label = labels[i / classes];
      if (label == ignored_label) continue;
      auto const difference = static_cast<double>(logits[i]) - (i % classes == label ? 1 : 0);
      sum += difference * difference / 2;
    }
    loss[0] = (c.add_to(0) ? loss[0] : 0) + sum * inverse_count[0];
  }
};

template <> struct constrain::kernel<own::squared_error_gradient, constrain::cpu> {
  template <class stored>
  static void run(call const&, tensor<double const> dloss, tensor<stored const> logits,
                  tensor<std::int32_t const> labels, tensor<double const> inverse_count, tensor<stored> dlogits) {
    using compute = arithmetic<stored>;
    auto const classes = logits.features();
    auto const scale = static_cast<compute>(dloss[0] * inverse_count[0]);
    for_elements(dlogits.count, [=](std::int64_t i) {
      auto const label = labels[i / classes];
      auto const difference = compute(logits[i]) - compute(i % classes == label ? 1 : 0);
      dlogits[i] = static_cast<stored>(label == ignored_label ? compute(0) : scale * difference);
    });
  }
};

namespace {

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    x = ct::repeat("block", 3, own::rms_normalised("start", x),
                   [](ct::value x) { return x + ct::dropout(ct::linear("inner", own::rms_normalised("norm", x), 6)); });
    return ct::linear("head", own::rms_normalised("norm", x, {.epsilon = 0.1}), 5);
  }
};
template <class objective> using task = ct::task<model{}, objective, ct::micro_batch{.sequences = 2, .tokens = 4}>;
using trainer = ct::trainer<task<own::brier_score>, ct::precision::fp32, ct::optimizer::adamw>;

constexpr auto rule = ct::info_of<own::rms_norm>;
constexpr auto x_type = f32(shape(2, 6)), weight_type = f32(shape(6));
static_assert(refuses<ct::op::widths_differ>(rule.infer(types({x_type, f32(shape(5))}), {}), 5, 6));
static_assert(rule.cost_of(types({x_type, weight_type}), types({x_type, f32(shape(2))}), {}).flops == 48);

// The plan counts what the cost rules say: one more on 48 elements, forward and backward.
template <int norms> struct stacked {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    x = own::rms_normalised("a", x);
    if (norms > 1) x = own::rms_normalised("b", x);
    return ct::linear("head", x, 5);
  }
};
template <int norms>
using stacked_task = ct::task<stacked<norms>{}, own::brier_score, ct::micro_batch{.sequences = 2, .tokens = 4}>;
template <int norms>
constexpr double flops = ct::trainer<stacked_task<norms>, ct::precision::fp32, ct::optimizer::sgd>::flops;
static_assert(flops<2> - flops<1> >= (4 + 10) * 48);

template <class T> array<T> rounded_to_bf16(shape s, unsigned seed) {
  auto const wide = array<float>::random(s, seed);
  std::vector<T> all;
  for (float each : wide.values()) all.push_back(static_cast<T>(float(ct::bfloat16(each))));
  return array<T>(s, all);
}

double distance(std::vector<double> const& a, std::vector<double> const& b) {
  REQUIRE(a.size() == b.size());
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) apart += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
  return std::sqrt(apart / size);
}

/// Everything that the kernels of rms_norm write for elements of type T, one array after another.
template <class T> std::vector<double> outputs_of_the_kernels() {
  using sum = ct::arithmetic<T>;
  shape const rows(21), width(24), all(3, 7, 24);
  auto const x = rounded_to_bf16<T>(all, 1), dy = rounded_to_bf16<T>(all, 2);
  auto const weight = rounded_to_bf16<sum>(width, 3);
  array<T> y(all), dx(all);
  array<sum> factor(rows), dweight(width);
  auto const epsilon = ct::pack(own::rms_norm::options{.epsilon = 1e-6});
  call_kernel<own::rms_norm>(ct::call{epsilon, no_parameters}, x.in(), weight.in(), y.out(), factor.out());
  call_kernel<own::rms_norm_gradient>(plain, dy.in(), x.in(), weight.in(), factor.in(), dx.out(), dweight.out());
  std::vector<double> written;
  auto const add = [&](auto const& values) {
    for (auto const& value : values) written.push_back(static_cast<double>(value));
  };
  add(y.values()), add(factor.values()), add(dx.values()), add(dweight.values());
  return written;
}

/// Every gradient of the first step from the weights of one seed.
template <class precision> std::vector<double> gradients_in(random_batch const& w) {
  ct::trainer<task<own::brier_score>, precision, ct::optimizer::sgd, ct::checkpoint::every<2>> t(
      {.learning_rate = 0}, {.seed = 2, .checked = true});
  t.step(t.batch(w.inputs, w.labels));
  std::vector<double> all;
  for (auto const& p : t.parameters()) {
    std::vector<double> gradient(static_cast<std::size_t>(p.size()));
    t.gradient(p.name).copy_to(std::span(gradient));
    all.insert(all.end(), gradient.begin(), gradient.end());
  }
  return all;
}

} // namespace

TEST_CASE("own op: the kernels in bf16, fp32 and fp64") {
  auto const fp32 = outputs_of_the_kernels<float>();
  CHECK(distance(fp32, outputs_of_the_kernels<double>()) <= 1e-6);
  CHECK(distance(outputs_of_the_kernels<ct::bfloat16>(), fp32) <= 4e-3);
}

TEST_CASE("own op: a trainer in bf16, fp32 and fp64") {
  auto const w = random_batch::draw<trainer>(1);
  auto const fp32 = gradients_in<ct::precision::fp32>(w);
  CHECK(distance(fp32, gradients_in<ct::precision::fp64>(w)) <= 1e-5);
  CHECK(distance(gradients_in<ct::precision::bf16>(w), fp32) <= 3e-2);
}

TEST_CASE("own op: gradients, with the library's objective and with one's own") {
  check_gradients<task<ct::causal_lm>>();
  check_gradients<task<own::brier_score>, ct::accumulate<2>>();
  check_gradients<task<own::brier_score>, ct::accumulate<2>, ct::checkpoint::every<2>>();
}

TEST_CASE("own op: trains, evaluates and predicts") {
  trainer t({.learning_rate = 0.01f});
  auto const w = random_batch::draw<trainer>(1);
  double const first = t.step(t.batch(w.inputs, w.labels)).loss;
  double last = first;
  for (int i = 0; i < 50; ++i) last = t.step(t.batch(w.inputs, w.labels)).loss;
  CHECK(last < 0.5 * first);

  auto const y = t.predict(w.inputs);
  double expected = 0;
  int valid = 0;
  for (std::size_t i = 0; i < w.labels.size(); ++i) {
    if (w.labels[i] == ct::ignored_label) continue;
    ++valid;
    for (std::size_t k = 0; k < 5; ++k) {
      auto const target = static_cast<int>(k) == w.labels[i] ? 1.0 : 0.0;
      expected += std::pow(static_cast<double>(y.logits[i * 5 + k]) - target, 2) / 2;
    }
  }
  auto const e = t.evaluate(w.inputs, w.labels);
  CHECK(e.tokens == valid);
  CHECK(e.loss == doctest::Approx(expected / valid).epsilon(1e-6));
}
