#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

#include <cmath>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::layer_norm>;
constexpr auto gradient_rule = ct::info_of<ct::op::layer_norm_gradient>;
constexpr auto x_type = f32(shape(2, 5, 12)), width_type = f32(shape(12)), rows_type = f32(shape(10));
constexpr auto outputs = rule.infer(types({x_type, width_type, width_type}), {}).outputs;
static_assert(outputs.size() == 3 && outputs[0] == x_type && outputs[1] == rows_type && outputs[2] == rows_type);
static_assert(refuses<ct::op::widths_differ>(rule.infer(types({x_type, f32(shape(11)), f32(shape(11))}), {}), 11, 12));
static_assert(refuses<ct::op::ranks_differ>(rule.infer(types({x_type, f32(shape(3, 12)), f32(shape(3, 12))}), {}), 2,
                                            1));
static_assert(refuses<ct::op::widths_differ>(rule.infer(types({x_type, width_type, f32(shape(1))}), {}), 12, 1));
static_assert(refuses<ct::op::ranks_differ>(rule.infer(types({x_type, width_type, f32(shape(1, 12))}), {}), 1, 2));
constexpr bool refuses_epsilon(double epsilon) {
  return refuses<ct::op::epsilon_is_out_of_range>(
      rule.infer(types({x_type, f32(shape(12)), f32(shape(12))}), ct::pack(ct::layer_norm_options{epsilon})), 0, 0);
}
static_assert(refuses_epsilon(1e39) && refuses_epsilon(-1) && refuses_epsilon(__builtin_inf()));
static_assert(refuses_epsilon(__builtin_nan("")) && !refuses_epsilon(0));
constexpr auto gradients = gradient_rule.infer(types({x_type, x_type, width_type, rows_type, rows_type}), {}).outputs;
static_assert(gradients.size() == 4 && gradients[0] == x_type);
static_assert(gradients[1] == width_type && gradients[2] == width_type);
static_assert(gradient_rule.accumulating == 0b110 && gradient_rule.workspace == 0b1000);

struct model {
  double epsilon;
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    x = ct::layer_norm("first", x, {.epsilon = epsilon});
    return ct::linear("head", ct::layer_norm("second", ct::silu(x), {.epsilon = epsilon}), 5);
  }
};

template <class real> struct normalised {
  shape s;
  array<real> y, mean, rstd, dx, dweight, dbias, partial;

  explicit normalised(shape of)
      : s(of), y(s), mean(shape(s.rows())), rstd(shape(s.rows())), dx(s), dweight(shape(s.features())),
        dbias(shape(s.features())), partial(shape(ct::op::layer_norm_gradient::chunks, 2, s.features())) {}

  void forward(array<real> const& x, array<real> const& weight, array<real> const& bias, double epsilon = 1e-5) {
    auto const options = ct::pack(ct::layer_norm_options{.epsilon = epsilon});
    call_kernel<ct::op::layer_norm>(ct::call{options, no_parameters}, x.in(), weight.in(), bias.in(), y.out(),
                                    mean.out(), rstd.out());
  }
  void backward(ct::call const& c, ct::tensor<real const> dy, array<real> const& x, array<real> const& weight,
                ct::tensor<real> to) {
    call_kernel<ct::op::layer_norm_gradient>(c, dy, x.in(), weight.in(), mean.in(), rstd.in(), to, dweight.out(),
                                             dbias.out(), partial.out());
  }
};

} // namespace

TEST_CASE("layer_norm: gradients") {
  check_gradients<ct::task<model{1e-5}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>>();
  check_gradients<ct::task<model{0.5}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>,
                  ct::accumulate<2>>();
}

TEST_CASE_TEMPLATE("layer_norm: as PyTorch", real, float, double) {
  fixture const f("ops.safetensors");
  shape const s(2, 5, 12);
  array<real> const x(s, f.reals("layer_norm.x")), weight(shape(12), f.reals("layer_norm.weight")),
      bias(shape(12), f.reals("layer_norm.bias")), dy(s, f.reals("layer_norm.dy"));
  normalised<real> n(s);
  n.forward(x, weight, bias);
  CHECK(relative_error(n.y.values(), f.reals("layer_norm.y")) < tolerance<real>);
  n.backward(plain, dy.in(), x, weight, n.dx.out());
  CHECK(relative_error(n.dx.values(), f.reals("layer_norm.dx")) < tolerance<real>);
  CHECK(relative_error(n.dweight.values(), f.reals("layer_norm.dweight")) < tolerance<real>);
  CHECK(relative_error(n.dbias.values(), f.reals("layer_norm.dbias")) < tolerance<real>);

  // The second micro-batch adds; dx may overwrite dy.
  auto over = dy;
  n.backward(adding(0b110), over.in(), x, weight, over.out());
  CHECK(same_bits(over.values(), n.dx.values()));
  auto twice = f.reals("layer_norm.dweight");
  for (auto& v : twice) v *= 2;
  CHECK(relative_error(n.dweight.values(), twice) < tolerance<real>);
  twice = f.reals("layer_norm.dbias");
  for (auto& v : twice) v *= 2;
  CHECK(relative_error(n.dbias.values(), twice) < tolerance<real>);

  // y may overwrite x.
  auto over_x = x;
  auto const options = ct::pack(ct::layer_norm_options{.epsilon = 1e-5});
  call_kernel<ct::op::layer_norm>(ct::call{options, no_parameters}, over_x.in(), weight.in(), bias.in(), over_x.out(),
                                  n.mean.out(), n.rstd.out());
  CHECK(same_bits(over_x.values(), n.y.values()));
}

TEST_CASE_TEMPLATE("layer_norm: a constant row is its bias, a far-off mean costs no accuracy", real, float, double) {
  array<real> const weight(shape(4), {1, 2, 3, 4}), bias(shape(4), {5, 6, 7, 8});
  array<real> const x(shape(2, 4), {3, 3, 3, 3, /**/ 4095, 4096, 4097, 4098});
  normalised<real> n(shape(2, 4));
  n.forward(x, weight, bias, 1e-12);
  for (std::size_t i = 0; i < 4; ++i) CHECK(n.y[i] == bias[i]);
  double const expected[] = {-1.5, -0.5, 0.5, 1.5}; // over the deviation sqrt(5) / 2
  for (std::size_t i = 0; i < 4; ++i) {
    double const y = expected[i] / std::sqrt(1.25) * static_cast<double>(weight[i]) + static_cast<double>(bias[i]);
    CHECK(n.y[4 + i] == doctest::Approx(y).epsilon(tolerance<real>));
  }
}

TEST_CASE_TEMPLATE("layer_norm: bit-identical on any number of threads", real, float, double) {
  shape const s(3, 43, 100);
  auto const x = array<real>::random(s, 1), weight = array<real>::random(shape(100), 2),
             bias = array<real>::random(shape(100), 3), dy = array<real>::random(s, 4);
  check_same_on_all_threads([&] {
    normalised<real> n(s);
    n.forward(x, weight, bias);
    return n.y.values();
  });
  normalised<real> n(s);
  n.forward(x, weight, bias);
  for (int output = 0; output < 3; ++output)
    check_same_on_all_threads([&] {
      n.backward(plain, dy.in(), x, weight, n.dx.out());
      return output == 0 ? n.dx.values() : output == 1 ? n.dweight.values() : n.dbias.values();
    });
}
