#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

#include <cmath>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::squared_error>;
static_assert(rule.infer(types({f32(shape(2, 3)), f32(shape(2, 3))}), {}).outputs[0] == f64({}));
static_assert(rule.infer(types({{ct::dtype::bf16, shape(2, 3)}, f32(shape(2, 3))}), {}).outputs.size() == 2);
static_assert(refuses<ct::op::integers_instead_of_floats>(rule.infer(types({f32(shape(2, 3)), i32(shape(2, 3))}), {}),
                                                          0, 1));
static_assert(refuses<ct::op::widths_differ>(rule.infer(types({f32(shape(2, 3)), f32(shape(2, 4))}), {}), 3, 4));

constexpr std::int64_t parts = ct::op::squared_error::parts;

// From features to two numbers for each sequence.
struct two_layers {
  static constexpr ct::port_spec inputs[] = {
      {.name = "features", .type = ct::port_type::real, .each = ct::per::sequence, .features = 5}};
  constexpr ct::value operator()(ct::value x) const {
    return ct::linear("out", ct::gelu(ct::linear("hidden", x, 7)), 2);
  }
};
using regression = ct::task<two_layers{}, ct::mean_squared_error, ct::micro_batch{.sequences = 6}>;

// Both arguments of the loss depend on parameters.
struct error_of_two_predictions {
  static constexpr ct::port_spec labels[] = {{.name = "scales", .type = ct::port_type::real, .each = ct::per::logit}};
  constexpr ct::value operator()(ct::value prediction, ct::value scales) const {
    return ct::squared_error(ct::slice(prediction, 1, 0, 1),
                             ct::slice(prediction, 1, 1, 1) * ct::slice(scales, 1, 0, 1));
  }
};
using two_predictions = ct::task<two_layers{}, error_of_two_predictions, ct::micro_batch{.sequences = 6}>;

} // namespace

TEST_CASE("squared_error: gradients") {
  check_gradients<regression>();
  check_gradients<regression, ct::accumulate<2>>();
  check_gradients<two_predictions>();
}

TEST_CASE_TEMPLATE("squared_error: the mean of the squares and its derivative", real, float, double) {
  array<double> const inverse_count(shape{}, {1.0 / 4}); // of two micro-batches
  array<real> const prediction(shape(2, 1), {1, 2});
  array<real> const target(shape(2, 1), {0.5, 5});
  array<double> loss(shape(1), {7});
  array<double> partial{shape(parts)};
  call_kernel<ct::op::squared_error>(plain, prediction.in(), target.in(), inverse_count.in(), loss.out(),
                                     partial.out());
  CHECK(loss[0] == (0.25 + 9) / 4);
  call_kernel<ct::op::squared_error>(adding(1), prediction.in(), target.in(), inverse_count.in(), loss.out(),
                                     partial.out());
  CHECK(loss[0] == (0.25 + 9) / 2);
  array<double> const dloss(shape(1), {3});
  array<real> gradient(shape(2, 1));
  call_kernel<ct::op::squared_error_gradient>(plain, dloss.in(), prediction.in(), target.in(), inverse_count.in(),
                                              gradient.out());
  CHECK(gradient.values() == std::vector<real>{real(3 * 2 * 0.5 / 4), real(3 * 2 * -3.0 / 4)});
}

TEST_CASE("squared_error: bfloat16 predictions of float targets") {
  array<ct::bfloat16> const prediction(shape(3), std::vector<float>{1, 2, 3});
  array<float> const target(shape(3), {1.001f, 2, 4});
  array<double> loss{shape(1)}, partial{shape(parts)};
  array<double> const one(shape{}, {1.0});
  call_kernel<ct::op::squared_error>(plain, prediction.in(), target.in(), one.in(), loss.out(), partial.out());
  CHECK(std::abs(loss[0] - (1 + 1e-6)) < 1e-9);
}

TEST_CASE("squared_error: bit-identical on any number of threads") {
  auto const prediction = array<float>::random(shape(100, 33), 1), target = array<float>::random(shape(100, 33), 2);
  array<double> const one(shape{}, {1.0});
  check_same_on_all_threads([&] {
    array<double> loss{shape(1)}, partial{shape(parts)};
    call_kernel<ct::op::squared_error>(plain, prediction.in(), target.in(), one.in(), loss.out(), partial.out());
    return loss.values();
  });
}
