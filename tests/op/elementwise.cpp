#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

#include <cmath>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

// User code: the function and its derivative.
struct softcap {
  template <class real> CT_HOST_DEVICE static real forward(real x) { return 30 * std::tanh(x / 30); }
  template <class real> CT_HOST_DEVICE static real gradient(real, real y, real dy) {
    return dy * (1 - (y / 30) * (y / 30));
  }
};
struct both { // sin, whose derivative sin'(x) = cos(x) is checked against sin(x)^2 + cos(x)^2 = 1
  template <class real> CT_HOST_DEVICE static real forward(real x) { return std::sin(x); }
  template <class real> CT_HOST_DEVICE static real gradient(real x, real y, real dy) {
    return dy * std::cos(x) * (y * y + std::cos(x) * std::cos(x));
  }
};
struct tanh_by_result {
  static constexpr bool derivative_uses_input = false;
  template <class real> CT_HOST_DEVICE static real forward(real x) { return std::tanh(x); }
  template <class real> CT_HOST_DEVICE static real gradient(real, real y, real dy) { return dy * (1 - y * y); }
};
struct square_by_argument {
  static constexpr bool derivative_uses_output = false;
  template <class real> CT_HOST_DEVICE static real forward(real x) { return x * x; }
  template <class real> CT_HOST_DEVICE static real gradient(real x, real, real dy) { return dy * 2 * x; }
};
struct tripled {
  static constexpr bool derivative_uses_input = false, derivative_uses_output = false;
  template <class real> CT_HOST_DEVICE static real forward(real x) { return 3 * x + 1; }
  template <class real> CT_HOST_DEVICE static real gradient(real, real, real dy) { return 3 * dy; }
};
// Like `tanh_by_result`, but without declaring it.
struct tanh_keeps_all {
  template <class real> CT_HOST_DEVICE static real forward(real x) { return std::tanh(x); }
  template <class real> CT_HOST_DEVICE static real gradient(real, real y, real dy) { return dy * (1 - y * y); }
};

constexpr auto rule = ct::info_of<ct::op::elementwise<softcap>>;
static_assert(rule.infer(types({f32(shape(2, 3))}), {}).outputs[0] == f32(shape(2, 3)));
// Each functor is an op of its own.
static_assert(&ct::info_of<ct::op::elementwise<softcap>> != &ct::info_of<ct::op::elementwise<both>>);

// On a value that is used again, in a repeat, and twice in a row.
template <class functor> struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::linear("up", ct::embedding("token", tokens, {.vocabulary = 7, .width = 6}), 6);
    auto const y = ct::elementwise<functor>(x) + x;
    auto const z = ct::repeat("block", 2, y, [](ct::value x) {
      return ct::layer_norm("norm", ct::elementwise<functor>(ct::linear("inner", x, 6)));
    });
    return ct::linear("head", ct::dropout(ct::elementwise<functor>(ct::elementwise<functor>(z))), 5);
  }
};
constexpr ct::micro_batch small{.sequences = 2, .tokens = 4};
template <class functor> using lm = ct::task<model<functor>{}, ct::causal_lm, small>;

// A model's last operation.
struct capped_logits {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    return ct::elementwise<softcap>(ct::linear("head", x, 5));
  }
};

// Values that the derivative does not use are not kept.
template <class functor> struct deep {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 64});
    return ct::linear("head",
                      ct::repeat("block", 8, x,
                                 [](ct::value x) {
                                   return ct::linear("down", ct::elementwise<functor>(ct::linear("up", x, 512)), 64);
                                 }),
                      5);
  }
};
template <class functor>
using deep_task = ct::task<deep<functor>{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 8}>;
template <class functor>
constexpr auto activations =
    ct::trainer<deep_task<functor>, ct::precision::fp32, ct::optimizer::sgd>::memory.activations;
constexpr auto one_iteration = ct::bytes(2 * 8 * 512 * 4);
static_assert(activations<tanh_keeps_all> - activations<tanh_by_result> >= ct::bytes(7 * one_iteration.count()));

} // namespace

TEST_CASE("elementwise: gradients of a user's functors") {
  check_gradients<ct::task<capped_logits{}, ct::causal_lm, small>>();
  check_gradients<lm<both>>();
  check_gradients<lm<tanh_by_result>, ct::accumulate<2>>();
}
TEST_CASE("elementwise: gradients of functors that use their argument alone, or nothing") {
  check_gradients<lm<square_by_argument>>();
  check_gradients<lm<tripled>, ct::checkpoint::every<1>>();
}

TEST_CASE_TEMPLATE("elementwise: kernels, also over their own operands", real, float, double) {
  shape const s(3, 7);
  auto const x = array<real>::random(s, 1), dy = array<real>::random(s, 2);
  array<real> y(s), dx(s);
  call_kernel<ct::op::elementwise<both>>(plain, x.in(), y.out());
  call_kernel<ct::op::elementwise_gradient<both>>(plain, dy.in(), x.in(), y.in(), dx.out());
  for (std::size_t i = 0; i < 21; ++i) {
    CHECK(y[i] == doctest::Approx(std::sin(static_cast<double>(x[i]))));
    CHECK(dx[i] == doctest::Approx(static_cast<double>(dy[i]) * std::cos(static_cast<double>(x[i]))));
  }
  auto over_x = x, over_dy = dy, over_y = y;
  call_kernel<ct::op::elementwise<both>>(plain, over_x.in(), over_x.out());
  CHECK(same_bits(over_x.values(), y.values()));
  over_x = x;
  call_kernel<ct::op::elementwise_gradient<both>>(plain, dy.in(), over_x.in(), y.in(), over_x.out());
  call_kernel<ct::op::elementwise_gradient<both>>(plain, over_dy.in(), x.in(), y.in(), over_dy.out());
  call_kernel<ct::op::elementwise_gradient<both>>(plain, dy.in(), x.in(), over_y.in(), over_y.out());
  for (auto const* over : {&over_x, &over_dy, &over_y}) CHECK(same_bits(over->values(), dx.values()));

  call_kernel<ct::op::elementwise_gradient<tanh_by_result>>(plain, dy.in(), y.in(), dx.out());
  for (std::size_t i = 0; i < 21; ++i) CHECK(dx[i] == doctest::Approx(static_cast<double>(dy[i] * (1 - y[i] * y[i]))));
  call_kernel<ct::op::elementwise_gradient<square_by_argument>>(plain, dy.in(), x.in(), dx.out());
  for (std::size_t i = 0; i < 21; ++i) CHECK(dx[i] == dy[i] * 2 * x[i]);
  call_kernel<ct::op::elementwise_gradient<tripled>>(plain, dy.in(), dx.out());
  for (std::size_t i = 0; i < 21; ++i) CHECK(dx[i] == 3 * dy[i]);
}

namespace {

constexpr auto with_bias = ct::info_of<ct::op::elementwise_gradient_bias<both>>;
static_assert(ct::info_of<ct::op::elementwise_gradient<both>>.with_bias_gradient ==
              &ct::info_of<ct::op::elementwise_gradient_bias<both>>);
constexpr auto of_bias =
    with_bias.infer(types({f32(shape(2, 3, 7)), f32(shape(2, 3, 7)), f32(shape(2, 3, 7))}), {}).outputs;
static_assert(of_bias.size() == 3 && of_bias[0] == f32(shape(2, 3, 7)) && of_bias[1] == f32(shape(7)) &&
              of_bias[2] == f32(shape(16, 7)));
static_assert(with_bias.accumulating == 0b10 && with_bias.workspace == 0b100 && with_bias.gradient == nullptr);

template <class functor> constexpr int fused_calls() {
  int count = 0;
  for (auto const& n : ct::trainer<lm<functor>>::entries::step_program::final.nodes)
    count += n.op == &ct::info_of<ct::op::elementwise_gradient_bias<functor>> ? 1 : 0;
  return count;
}
static_assert(fused_calls<both>() == 1); // the other product's gradient has a second part

template <class T> std::vector<double> wide(array<T> const& a) {
  std::vector<double> values;
  for (auto x : a.values()) values.push_back(static_cast<double>(ct::arithmetic<T>(x)));
  return values;
}

// The fused kernel against elementwise_gradient and linear_bias_gradient.
template <class functor, class real, class... operands> void check_bias_gradient(shape s, operands const&... kept) {
  using sum = ct::storage<ct::accumulator_of(ct::dtype_of<real>)>;
  array<real> dx(s), expected(s);
  array<sum> dbias(shape(s.features())), expected_bias(shape(s.features())), partial(shape(16, s.features()));
  call_kernel<ct::op::elementwise_gradient<functor>>(plain, kept.in()..., expected.out());
  for (unsigned adds : {0u, 1u}) {
    call_kernel<ct::op::linear_bias_gradient>(adding(adds), expected.in(), expected_bias.out());
    call_kernel<ct::op::elementwise_gradient_bias<functor>>(adding(adds << 1), kept.in()..., dx.out(), dbias.out(),
                                                            partial.out());
    CHECK(same_bits(dx.values(), expected.values()));
    CHECK(relative_error(wide(dbias), wide(expected_bias)) <= tolerance<real>);
  }
}

} // namespace

TEST_CASE_TEMPLATE("elementwise: a gradient and its bias', as the ops that they stand for", real, float, double,
                   ct::float16, ct::bfloat16) {
  for (auto const& s : {shape(1, 5), shape(7, 33), shape(3, 21, 130)}) {
    array<real> const dy(s, array<float>::random(s, 1).values()), x(s, array<float>::random(s, 2).values()),
        y(s, array<float>::random(s, 3).values());
    check_bias_gradient<ct::op::gelu_tanh, real>(s, dy, x);
    check_bias_gradient<both, real>(s, dy, x, y);
    check_bias_gradient<tanh_by_result, real>(s, dy, y);
    check_bias_gradient<tripled, real>(s, dy);
  }
}

TEST_CASE_TEMPLATE("elementwise: a gradient and its bias', bit-identical on any number of threads", real, float,
                   double) {
  shape const s(131, 70);
  auto const dy = array<real>::random(s, 1), x = array<real>::random(s, 2);
  check_same_on_all_threads([&] {
    array<real> dx(s), dbias(shape(70)), partial(shape(16, 70));
    call_kernel<ct::op::elementwise_gradient_bias<ct::op::gelu_tanh>>(plain, dy.in(), x.in(), dx.out(), dbias.out(),
                                                                      partial.out());
    return dbias.values();
  });
}
