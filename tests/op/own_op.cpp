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

/// dx and dweight of rms_norm from dy, x, weight and each row's scale.
struct rms_norm_gradient {
  static constexpr char const* name = "rms_norm_gradient";
  static constexpr unsigned accumulating = 0b10;

  static constexpr ct::inferred infer(ct::operand_types const& in, ct::attributes const&) {
    return ct::inferred::one(in[1].type, in[1].shape).and_also(in[2].type, in[2].shape);
  }
  static constexpr ct::cost cost_of(ct::operand_types const& in, ct::operand_types const& out,
                                    ct::attributes const& a) {
    auto result = ct::cost_by_operands(in, out, a);
    result.flops = 9.0 * static_cast<double>(in[1].shape.elements());
    return result;
  }
};

/// y = x / sqrt(mean(x^2) + epsilon) * weight over the innermost dimension (Zhang & Sennrich 2019, eq. 4); each row's
/// factor is kept for the backward pass.
struct rms_norm {
  static constexpr char const* name = "rms_norm";
  static constexpr unsigned in_place = 0b1;

  static constexpr ct::inferred infer(ct::operand_types const& in, ct::attributes const&) {
    if (in[0].shape.features() != in[1].shape.features())
      return ct::inferred::failure(ct::why::widths_differ, in[1].shape.features(), in[0].shape.features());
    return ct::inferred::one(in[0].type, in[0].shape).and_also(in[0].type, shape(in[0].shape.rows()));
  }
  static constexpr ct::cost cost_of(ct::operand_types const& in, ct::operand_types const& out,
                                    ct::attributes const& a) {
    auto result = ct::cost_by_operands(in, out, a);
    result.flops = 4.0 * static_cast<double>(in[0].shape.elements());
    return result;
  }
  static constexpr void gradient(ct::backward& b) {
    b.emit<rms_norm_gradient>({b.gradient(), b.input(0), b.input(1), b.output(1)}, {0, 1});
  }
};

/// x [..., width] with root mean square 1, scaled by the parameter "name.weight" [width], which starts at 1.
constexpr ct::value rms_normalised(std::string_view name, ct::value x, double epsilon = 1e-6,
                                   int line = __builtin_LINE()) {
  ct::scope const inside(x.owner(), name, line);
  auto const weight = ct::parameter(x, "weight", shape(x.features()), ct::role::norm, {.constant = 1}, line);
  return ct::emit<rms_norm>({x, weight}, {{}, {epsilon}}, line);
}

struct squared_error_gradient {
  static constexpr char const* name = "squared_error_gradient";
  static constexpr unsigned in_place = 0b10;

  static constexpr ct::inferred infer(ct::operand_types const& in, ct::attributes const&) {
    return ct::inferred::one(in[1].type, in[1].shape);
  }
};

/// The mean over the window's valid labels of |logits - one_hot(label)|^2 / 2 (Brier 1950).
struct squared_error {
  static constexpr char const* name = "squared_error";
  static constexpr unsigned accumulating = 0b1;

  static constexpr ct::inferred infer(ct::operand_types const& in, ct::attributes const&) {
    auto const labels = in[0].shape.without(in[0].shape.rank - 1);
    if (in[1].type != ct::dtype::i32 || in[1].shape != labels)
      return ct::inferred::failure(ct::why::labels_do_not_fit_the_logits, labels.elements(), in[1].shape.elements());
    return ct::inferred::one(ct::dtype::f64, {});
  }
  static constexpr void gradient(ct::backward& b) {
    b.emit<squared_error_gradient>({b.gradient(), b.input(0), b.input(1)}, {0});
  }
};

struct brier_score {
  constexpr ct::value operator()(ct::value logits, ct::value labels) const {
    return ct::emit<squared_error>({logits, labels});
  }
};

} // namespace own

// The kernels.

template <> struct constrain::kernel<own::rms_norm, constrain::cpu> {
  template <class real>
  static void run(call const& c, tensor<real const> x, tensor<real const> weight, tensor<real> y, tensor<real> factor) {
    auto const width = x.features();
    auto const epsilon = static_cast<real>(c.options.real[0]);
    parallel_for(x.rows(), [=](std::int64_t row) {
      real const* from = x.data + row * width;
      real const squares = ordered_sum<real>(0, width, [=](std::int64_t i) { return from[i] * from[i]; });
      real const r = 1 / std::sqrt(squares / static_cast<real>(width) + epsilon);
      for (std::int64_t i = 0; i < width; ++i) y[row * width + i] = from[i] * r * weight[i];
      factor[row] = r;
    });
  }
};

template <> struct constrain::kernel<own::rms_norm_gradient, constrain::cpu> {
  template <class real>
  static void run(call const& c, tensor<real const> dy, tensor<real const> x, tensor<real const> weight,
                  tensor<real const> factor, tensor<real> dx, tensor<real> dweight) {
    auto const width = x.features();
    if (!c.add_to(1)) std::fill_n(dweight.data, width, real(0));
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      real const* from = x.data + row * width;
      real const* g = dy.data + row * width;
      real const r = factor[row];
      real const dot = ordered_sum<real>(0, width, [=](std::int64_t i) { return g[i] * weight[i] * from[i]; });
      real const share = r * r * dot / static_cast<real>(width);
      for (std::int64_t i = 0; i < width; ++i) {
        dweight[i] += g[i] * from[i] * r;
        dx[row * width + i] = r * (g[i] * weight[i] - from[i] * share);
      }
    }
  }
};

template <> struct constrain::kernel<own::squared_error, constrain::cpu> {
  template <class real>
  static void run(call const& c, tensor<real const> logits, tensor<std::int32_t const> labels, tensor<double> loss) {
    auto const classes = logits.features();
    double sum = 0;
    for (std::int64_t i = 0; i < logits.count; ++i) {
      auto const label = labels[i / classes];
      if (label == ignored_label) continue;
      auto const difference = static_cast<double>(logits[i]) - (i % classes == label ? 1 : 0);
      sum += difference * difference / 2;
    }
    loss[0] = (c.add_to(0) ? loss[0] : 0) + sum * c.numbers.inverse_label_count;
  }
};

template <> struct constrain::kernel<own::squared_error_gradient, constrain::cpu> {
  template <class real>
  static void run(call const& c, tensor<double const> dloss, tensor<real const> logits,
                  tensor<std::int32_t const> labels, tensor<real> dlogits) {
    auto const classes = logits.features();
    auto const scale = static_cast<real>(dloss[0] * c.numbers.inverse_label_count);
    for_elements(dlogits.count, [=](std::int64_t i) {
      auto const label = labels[i / classes];
      dlogits[i] = label == ignored_label ? real(0) : scale * (logits[i] - (i % classes == label ? real(1) : real(0)));
    });
  }
};

namespace {

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    x = ct::repeat("block", 3, own::rms_normalised("start", x), [](ct::value x) {
      return x + ct::dropout(ct::linear("inner", own::rms_normalised("norm", x), 6));
    });
    return ct::linear("head", own::rms_normalised("norm", x, 0.1), 5);
  }
};
template <class objective> using task = ct::task<model{}, objective, ct::micro_batch{.sequences = 2, .tokens = 4}>;
using trainer = ct::trainer<task<own::brier_score>, ct::precision::fp32, ct::optimizer::adamw>;

constexpr auto rule = ct::info_of<own::rms_norm>;
constexpr auto x_type = f32(shape(2, 6)), weight_type = f32(shape(6));
static_assert(refuses(rule.infer(types({x_type, f32(shape(5))}), {}), ct::why::widths_differ, 5, 6));
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
static_assert(flops<2> - flops<1> >= (4 + 9) * 48);

} // namespace

TEST_CASE("own op: gradients, with the library's objective and with one's own") {
  check_gradients<task<ct::causal_lm>>();
  check_gradients<task<own::brier_score>, ct::accumulate<2>>();
  check_gradients<task<own::brier_score>, ct::accumulate<2>, ct::checkpoint::every<2>>();
}

TEST_CASE("own op: trains, evaluates and predicts") {
  trainer t({.learning_rate = 0.01f});
  auto const w = random_window::draw<trainer>(1);
  double const first = t.step(t.window(w.inputs, w.labels)).loss;
  double last = first;
  for (int i = 0; i < 50; ++i) last = t.step(t.window(w.inputs, w.labels)).loss;
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
