#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

#include <cmath>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::rms_norm>;
constexpr auto gradient_rule = ct::info_of<ct::op::rms_norm_gradient>;
constexpr auto x_type = f32(shape(2, 5, 12)), width_type = f32(shape(12)), rows_type = f32(shape(10));
constexpr auto outputs = rule.infer(types({x_type, width_type}), {}).outputs;
static_assert(outputs.size() == 2 && outputs[0] == x_type && outputs[1] == rows_type);
constexpr auto narrow = rule.infer(types({{ct::dtype::f16, shape(2, 5, 12)}, width_type}), {}).outputs;
static_assert(narrow[0].type == ct::dtype::f16 && narrow[1] == rows_type);
static_assert(refuses<ct::op::epsilon_is_out_of_range>(rule.infer(types({x_type, width_type}),
                                                                  ct::pack(ct::rms_norm_options{.epsilon = -1})),
                                                       0, 0));
static_assert(refuses<ct::op::widths_differ>(rule.infer(types({x_type, f32(shape(11))}), {}), 11, 12));
static_assert(refuses<ct::op::ranks_differ>(rule.infer(types({x_type, f32(shape(3, 12))}), {}), 2, 1));
static_assert(refuses<ct::op::integers_instead_of_floats>(rule.infer(types({i32(shape(2, 12)), width_type}), {}), 0,
                                                          0));
constexpr auto gradients = gradient_rule.infer(types({x_type, x_type, width_type, rows_type}), {}).outputs;
static_assert(gradients.size() == 3 && gradients[0] == x_type && gradients[1] == width_type);
static_assert(gradients[2] == f32(shape(ct::op::rms_norm_gradient::chunks, 12)));
// Per element: 3 operations for dweight, 4 for the mean of the row and 5 for dx.
static_assert(gradient_rule.cost_of(types({x_type, x_type, width_type, rows_type}), gradients, {}).flops == 12 * 120);
static_assert(gradient_rule.accumulating == 0b10 && gradient_rule.workspace == 0b100);

struct model {
  double epsilon;
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    x = ct::rms_norm("first", x, {.epsilon = epsilon});
    x = ct::repeat("block", 3, x, [](ct::value y) { return y + ct::linear("mix", ct::rms_norm("norm", y), 6); });
    return ct::linear("head", ct::rms_norm("second", ct::silu(x), {.epsilon = epsilon}), 5);
  }
};
template <int thousandths>
using task = ct::task<model{thousandths / 1000.0}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;

template <class real> struct normalised {
  shape s;
  array<real> y, dx;
  array<ct::arithmetic<real>> rstd, dweight, partial;

  explicit normalised(shape of)
      : s(of), y(s), dx(s), rstd(shape(s.rows())), dweight(shape(s.features())),
        partial(shape(ct::op::rms_norm_gradient::chunks, s.features())) {}

  void forward(ct::tensor<real const> x, array<ct::arithmetic<real>> const& weight, ct::tensor<real> to,
               double epsilon = 1e-5) {
    auto const options = ct::pack(ct::rms_norm_options{.epsilon = epsilon});
    call_kernel<ct::op::rms_norm>(ct::call{options, no_parameters}, x, weight.in(), to, rstd.out());
  }
  void backward(ct::call const& c, ct::tensor<real const> dy, array<real> const& x,
                array<ct::arithmetic<real>> const& weight, ct::tensor<real> to) {
    call_kernel<ct::op::rms_norm_gradient>(c, dy, x.in(), weight.in(), rstd.in(), to, dweight.out(), partial.out());
  }
};

// Equation 4 of the paper, with epsilon, and its derivatives, in long double.
struct definition {
  std::vector<double> y, dx, dweight;

  template <class array>
  definition(array const& x, array const& weight, array const& dy, std::size_t width, double epsilon)
      : y(x.values().size()), dx(y.size()), dweight(width) {
    for (std::size_t row = 0; row < y.size(); row += width) {
      long double squares = 0, product = 0;
      for (std::size_t i = 0; i < width; ++i) squares += static_cast<long double>(x[row + i]) * x[row + i];
      long double const rms = std::sqrt(squares / static_cast<long double>(width) + static_cast<long double>(epsilon));
      for (std::size_t i = 0; i < width; ++i) {
        y[row + i] = static_cast<double>(x[row + i] / rms * weight[i]);
        dweight[i] += static_cast<double>(dy[row + i] * (x[row + i] / rms));
        product += static_cast<long double>(dy[row + i]) * weight[i] * x[row + i];
      }
      for (std::size_t i = 0; i < width; ++i)
        dx[row + i] = static_cast<double>(dy[row + i] * weight[i] / rms -
                                          x[row + i] * product / (static_cast<long double>(width) * rms * rms * rms));
    }
  }
};

} // namespace

TEST_CASE("rms_norm: gradients") {
  check_gradients<task<0>>();
  check_gradients<task<500>, ct::accumulate<2>, ct::checkpoint::every<2>>();
}

TEST_CASE_TEMPLATE("rms_norm: as the paper defines it", real, float, double) {
  shape const s(2, 5, 43);
  auto const x = array<real>::random(s, 1), weight = array<real>::random(shape(43), 2), dy = array<real>::random(s, 3);
  definition const expected(x, weight, dy, 43, 0.25);
  normalised<real> n(s);
  n.forward(x.in(), weight, n.y.out(), 0.25);
  CHECK(relative_error(n.y.values(), expected.y) < tolerance<real>);
  n.backward(plain, dy.in(), x, weight, n.dx.out());
  CHECK(relative_error(n.dx.values(), expected.dx) < tolerance<real>);
  CHECK(relative_error(n.dweight.values(), expected.dweight) < tolerance<real>);

  // The second micro-batch adds; dx may overwrite dy, and y may overwrite x.
  auto over = dy;
  n.backward(adding(0b10), over.in(), x, weight, over.out());
  CHECK(same_bits(over.values(), n.dx.values()));
  auto twice = expected.dweight;
  for (auto& v : twice) v *= 2;
  CHECK(relative_error(n.dweight.values(), twice) < tolerance<real>);
  auto over_x = x;
  n.forward(over_x.in(), weight, over_x.out(), 0.25);
  CHECK(same_bits(over_x.values(), n.y.values()));
}

TEST_CASE_TEMPLATE("rms_norm: a row of zeros stays zero, and its gradient is finite", real, ct::float16, ct::bfloat16,
                   float, double) {
  using accumulate = ct::arithmetic<real>;
  array<accumulate> const weight(shape(4), {1, 2, 3, 4});
  array<real> const x(shape(1, 4), std::vector<double>(4)), dy(shape(1, 4), std::vector<double>{1, 2, 3, 4});
  normalised<real> n(shape(1, 4));
  n.forward(x.in(), weight, n.y.out(), 0.25);
  n.backward(plain, dy.in(), x, weight, n.dx.out());
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(accumulate(n.y[i]) == 0);
    CHECK(accumulate(n.dx[i]) == static_cast<accumulate>(2 * (i + 1) * (i + 1))); // over the root of epsilon
    CHECK(n.dweight[i] == 0);
  }
}

TEST_CASE("rms_norm: fp16 squares do not overflow") {
  array<float> const weight(shape(4), {1, 1, 1, 1});
  array<ct::float16> const x(shape(1, 4), std::vector<double>{60000, -60000, 60000, 60000});
  normalised<ct::float16> n(shape(1, 4));
  n.forward(x.in(), weight, n.y.out());
  for (std::size_t i = 0; i < 4; ++i) CHECK(float(n.y[i]) == (i == 1 ? -1 : 1));
}

TEST_CASE_TEMPLATE("rms_norm: bit-identical on any number of threads", real, float, double) {
  shape const s(3, 43, 100);
  auto const x = array<real>::random(s, 1), weight = array<real>::random(shape(100), 2), dy = array<real>::random(s, 4);
  check_same_on_all_threads([&] {
    normalised<real> n(s);
    n.forward(x.in(), weight, n.y.out());
    return n.y.values();
  });
  normalised<real> n(s);
  n.forward(x.in(), weight, n.y.out());
  for (bool of_weight : {false, true})
    check_same_on_all_threads([&] {
      n.backward(plain, dy.in(), x, weight, n.dx.out());
      return of_weight ? n.dweight.values() : n.dx.values();
    });
}
