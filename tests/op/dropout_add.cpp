#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

// The shape rules are those of the ops that they replace.
constexpr auto sum = ct::info_of<ct::op::dropout_add>;
constexpr auto norm = ct::info_of<ct::op::dropout_add_layer_norm>;
constexpr auto bias = ct::info_of<ct::op::dropout_bias_gradient>;
constexpr auto x_type = f32(shape(2, 5, 12));
constexpr ct::operand_type rate_type{ct::dtype::f64, shape()};
static_assert(sum.infer(types({x_type, x_type, rate_type}), {}).outputs[0] == x_type);
static_assert(refuses<ct::op::widths_differ>(sum.infer(types({x_type, f32(shape(2, 5, 11)), rate_type}), {}), 12, 11));
constexpr auto y = norm.infer(types({x_type, x_type, rate_type, f32(shape(12)), f32(shape(12))}), {}).outputs;
static_assert(y.size() == 4 && y[0] == x_type && y[1] == x_type && y[2] == f32(shape(10)) && y[3] == f32(shape(10)));
static_assert(refuses<ct::op::widths_differ>(
    norm.infer(types({x_type, x_type, rate_type, f32(shape(11)), f32(shape(11))}), {}), 11, 12));
constexpr auto dx = bias.infer(types({x_type, rate_type}), {}).outputs;
static_assert(dx.size() == 2 && dx[0] == x_type && dx[1] == f32(shape(12)));
static_assert(sum.in_place == 0b11 && norm.in_place == 0b11 && bias.in_place == 0b1 && bias.accumulating == 0b10);
static_assert(sum.gradient == nullptr && norm.gradient == nullptr && bias.gradient == nullptr);
static_assert(ct::info_of<ct::op::dropout>.with_bias_gradient == &ct::info_of<ct::op::dropout_bias_gradient>);

// A residual stream whose layers end in a dropout: in front of a norm, and at the end of a block.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    x = ct::repeat("block", 3, x, [](ct::value h) {
      h = h + ct::dropout(ct::linear("one", ct::layer_norm("norm_1", h), 6));
      return ct::dropout(ct::linear("two", ct::layer_norm("norm_2", h), 6)) + h;
    });
    return ct::linear("head", x, 5);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;
template <class op> constexpr int calls() {
  int count = 0;
  for (auto const& n : ct::trainer<task, ct::precision::fp64>::entries::step_program::final.nodes)
    count += n.op == &ct::info_of<op> ? 1 : 0;
  return count;
}
static_assert(calls<ct::op::dropout_add>() == 1 && calls<ct::op::dropout_add_layer_norm>() == 1);
static_assert(calls<ct::op::dropout_bias_gradient>() == 2 && calls<ct::op::dropout>() == 0);
static_assert(calls<ct::op::add>() == 0 && calls<ct::op::linear_bias_gradient>() == 1); // the head's

/// A call that draws random numbers.
struct drawing {
  ct::step_parameters parameters;
  ct::attributes epsilon = ct::pack(ct::layer_norm_options{.epsilon = 1e-5});

  drawing() { parameters.seed = 3, parameters.step = 4; }
  ct::call call(unsigned adds = 0) const {
    ct::call c{epsilon, parameters};
    c.adds = adds;
    c.random_key = 5;
    c.iteration = 6;
    c.first_sample = 7;
    return c;
  }
};

template <class real> array<real> random(shape s, unsigned seed) { return {s, array<float>::random(s, seed).values()}; }

} // namespace

TEST_CASE("dropout_add: gradients") {
  check_gradients<task>();
  check_gradients<task, ct::accumulate<2>, ct::checkpoint::every<2>>();
}

TEST_CASE_TEMPLATE("dropout_add: the bits of the ops that it stands for", real, float, double, ct::float16,
                   ct::bfloat16) {
  using wide = ct::storage<ct::accumulator_of(ct::dtype_of<real>)>;
  drawing const draws;
  for (auto const& s : {shape(1, 7), shape(37, 33), shape(3, 5, 64)}) {
    auto const a = random<real>(s, 1), b = random<real>(s, 2);
    shape const width(s.features()), rows(s.rows());
    auto const weight = array<wide>::random(width, 3), shift = array<wide>::random(width, 4);
    for (double const p : {0.0, 0.3}) {
      array<double> const rate(shape{}, {p});
      array<real> dropped(s), expected(s), got(s), total(s), y(s), expected_y(s);
      call_kernel<ct::op::dropout>(draws.call(), b.in(), rate.in(), dropped.out());
      call_kernel<ct::op::add>(draws.call(), a.in(), dropped.in(), expected.out());
      call_kernel<ct::op::dropout_add>(draws.call(), a.in(), b.in(), rate.in(), got.out());
      CHECK(same_bits(got.values(), expected.values()));
      array<wide> mean(rows), rstd(rows), expected_mean(rows), expected_rstd(rows);
      call_kernel<ct::op::layer_norm>(draws.call(), expected.in(), weight.in(), shift.in(), expected_y.out(),
                                      expected_mean.out(), expected_rstd.out());
      call_kernel<ct::op::dropout_add_layer_norm>(draws.call(), a.in(), b.in(), rate.in(), weight.in(), shift.in(),
                                                  total.out(), y.out(), mean.out(), rstd.out());
      CHECK(same_bits(total.values(), expected.values()));
      CHECK(same_bits(y.values(), expected_y.values()));
      CHECK(same_bits(mean.values(), expected_mean.values()));
      CHECK(same_bits(rstd.values(), expected_rstd.values()));
      // The results may overwrite the operands.
      auto over_a = a, over_b = b;
      call_kernel<ct::op::dropout_add>(draws.call(), over_a.in(), b.in(), rate.in(), over_a.out());
      CHECK(same_bits(over_a.values(), expected.values()));
      call_kernel<ct::op::dropout_add_layer_norm>(draws.call(), a.in(), over_b.in(), rate.in(), weight.in(), shift.in(),
                                                  over_b.out(), y.out(), mean.out(), rstd.out());
      CHECK(same_bits(over_b.values(), expected.values()));
      CHECK(same_bits(y.values(), expected_y.values()));
    }
  }
}

TEST_CASE_TEMPLATE("dropout: a gradient and its bias', the bits of the ops that they stand for", real, float, double,
                   ct::float16, ct::bfloat16) {
  using wide = ct::storage<ct::accumulator_of(ct::dtype_of<real>)>;
  drawing const draws;
  for (auto const& s : {shape(1, 7), shape(37, 33), shape(3, 5, 64)}) {
    auto const dy = random<real>(s, 1);
    shape const width(s.features());
    array<real> expected(s), got(s);
    array<wide> expected_bias(width), bias_gradient(width);
    for (double const p : {0.0, 0.3})
      for (unsigned const adds : {0u, 1u}) {
        array<double> const rate(shape{}, {p});
        call_kernel<ct::op::dropout>(draws.call(), dy.in(), rate.in(), expected.out());
        call_kernel<ct::op::linear_bias_gradient>(draws.call(adds), expected.in(), expected_bias.out());
        call_kernel<ct::op::dropout_bias_gradient>(draws.call(adds << 1), dy.in(), rate.in(), got.out(),
                                                   bias_gradient.out());
        CHECK(same_bits(got.values(), expected.values()));
        CHECK(same_bits(bias_gradient.values(), expected_bias.values()));
      }
  }
}
