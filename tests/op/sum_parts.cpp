#include "fixtures.hpp"
#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::sum_parts>;
static_assert(rule.infer(types({f32(shape(3, 12))}), {}).outputs[0] == f32(shape(12)));
static_assert(rule.accumulating == 0b1 && rule.gradient == nullptr);

// Ops with sums over rows leave them in parts if their options say so.
constexpr auto three = ct::pack(ct::row_sum_options{.parts = 3});
constexpr auto x_type = f32(shape(2, 5, 12));
constexpr auto norm_type = f32(shape(12)), rows_type = f32(shape(10));
template <class op> constexpr auto in_parts(ct::operand_types const& inputs) {
  return ct::info_of<op>.infer(inputs, three).outputs;
}
static_assert(in_parts<ct::op::linear_bias_gradient>(types({x_type}))[0] == f32(shape(3, 12)));
static_assert(in_parts<ct::op::dropout_bias_gradient>(types({x_type}))[1] == f32(shape(3, 12)));
static_assert(in_parts<ct::op::elementwise_gradient_bias<ct::op::silu>>(types({x_type, x_type}))[1] ==
              f32(shape(3, 12)));
static_assert(in_parts<ct::op::layer_norm_gradient>(types({x_type, x_type, norm_type, rows_type, rows_type}))[2] ==
              f32(shape(3, 12)));
static_assert(in_parts<ct::op::layer_norm_gradient_add>(types({x_type, x_type, x_type, norm_type, rows_type,
                                                               rows_type}))[1] == f32(shape(3, 12)));

constexpr ct::step_parameters no_draws;
/// A call whose sums stay in `parts` parts; 0: they do not.
ct::call sums_in(std::int64_t parts) {
  static ct::attributes options;
  options = ct::pack(ct::row_sum_options{parts});
  return ct::call{options, no_draws};
}

/// Checks that the sum of the parts is the sum over all rows, to rounding, and that the other results are the same.
/// `f` calls a kernel, with its call and its sums.
template <class function> void check_parts(std::int64_t width, function const& f) {
  for (std::int64_t const parts : {1, 3, 7}) {
    array<double> whole(shape{width}), in_parts(shape(parts, width)), summed(shape{width});
    auto const expected = f(sums_in(0), whole.out());
    auto const got = f(sums_in(parts), in_parts.out());
    CHECK(same_bits(got, expected));
    call_kernel<ct::op::sum_parts>(plain, in_parts.in(), summed.out());
    CHECK(relative_error(summed.values(), whole.values()) <= 1e-14);
    // Added once more, the sum doubles.
    call_kernel<ct::op::sum_parts>(adding(1), in_parts.in(), summed.out());
    for (std::size_t i = 0; i < summed.values().size(); ++i)
      CHECK(summed[i] == doctest::Approx(2 * whole[i]).epsilon(1e-12));
  }
}

} // namespace

TEST_CASE("sum_parts: the sums that ops leave in parts") {
  shape const s(23, 9), width(9), rows(23);
  auto const dy = array<double>::random(s, 1), x = array<double>::random(s, 2),
             weight = array<double>::random(width, 3);
  check_parts(9, [&](ct::call const& c, ct::tensor<double> sums) {
    call_kernel<ct::op::linear_bias_gradient>(c, dy.in(), sums);
    return std::vector<double>{};
  });
  array<double> const rate(shape{}, {0.25});
  check_parts(9, [&](ct::call const& c, ct::tensor<double> sums) {
    array<double> dx(s);
    call_kernel<ct::op::dropout_bias_gradient>(c, dy.in(), rate.in(), dx.out(), sums);
    return dx.values();
  });
  check_parts(9, [&](ct::call const& c, ct::tensor<double> sums) {
    array<double> dx(s), partial(shape(16, 9));
    call_kernel<ct::op::elementwise_gradient_bias<ct::op::silu>>(c, dy.in(), x.in(), dx.out(), sums, partial.out());
    return dx.values();
  });
  auto const mean = array<double>::random(rows, 4), rstd = array<double>::random(rows, 5);
  for (bool const of_weight : {false, true})
    for (bool const adds : {false, true})
      check_parts(9, [&](ct::call const& c, ct::tensor<double> sums) {
        array<double> dx(s), partial(shape(16, 2, 9)), others(sums.shape());
        auto const run = [&]<class op, class... residual>(op, residual... r) {
          call_kernel<op>(c, r..., dy.in(), x.in(), weight.in(), mean.in(), rstd.in(), dx.out(),
                          of_weight ? sums : others.out(), of_weight ? others.out() : sums, partial.out());
        };
        if (adds) run(ct::op::layer_norm_gradient_add{}, x.in());
        else run(ct::op::layer_norm_gradient{});
        return dx.values();
      });
}

TEST_CASE("sum_parts: every instance of a stack") {
  auto const x = array<float>::random(shape(2, 3, 5), 1); // two instances of three parts
  shape const one(3, 5), width(5);
  ct::tensor<float const> const stacked{x.values().data(), &one, 30};
  array<float> y(shape(2, 5));
  call_kernel<ct::op::sum_parts>(plain, stacked, ct::tensor<float>{y.out().data, &width, 10});
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 5; ++j) CHECK(y[i * 5 + j] == x[i * 15 + j] + x[i * 15 + 5 + j] + x[i * 15 + 10 + j]);
}
