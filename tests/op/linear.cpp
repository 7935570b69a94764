#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

#include <string_view>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

// The rules.
constexpr auto x_type = f32(shape(2, 5, 12));
constexpr auto weight_type = f32(shape(7, 12));
constexpr auto y_type = f32(shape(2, 5, 7));
constexpr auto forward = ct::info_of<ct::op::linear>;
constexpr auto input_gradient = ct::info_of<ct::op::linear_input_gradient>;
constexpr auto weight_gradient = ct::info_of<ct::op::linear_weight_gradient>;
constexpr auto bias_gradient = ct::info_of<ct::op::linear_bias_gradient>;

static_assert(forward.infer(types({x_type, weight_type}), {}).outputs[0] == y_type);
static_assert(forward.infer(types({f32(shape(3, 12)), weight_type, f32(shape(7))}), {}).outputs[0] == f32(shape(3, 7)));
static_assert(refuses<ct::op::widths_differ>(forward.infer(types({x_type, f32(shape(7, 11))}), {}), 11, 12));
constexpr auto infer_with_bias(shape bias) { return forward.infer(types({x_type, weight_type, f32(bias)}), {}); }
static_assert(refuses<ct::op::widths_differ>(infer_with_bias(shape(12)), 7, 12));
static_assert(refuses<ct::op::ranks_differ>(infer_with_bias(shape(1, 7)), 1, 2));
static_assert(refuses<ct::op::linear::input_is_a_scalar>(forward.infer(types({f32(shape{}), weight_type}), {}), 1, 0));
static_assert(input_gradient.infer(types({y_type, weight_type}), {}).outputs[0] == x_type);
static_assert(weight_gradient.infer(types({y_type, x_type}), {}).outputs[0] == weight_type);
static_assert(bias_gradient.infer(types({y_type}), {}).outputs[0] == f32(shape(7)));

// Three products of 2 * 10 * 7 * 12; each matrix is read or written once.
constexpr auto cost = forward.cost_of(types({x_type, weight_type}), types({y_type}), {});
static_assert(cost.flops == 2 * 10 * 7 * 12);
static_assert(cost.bytes_read == 4 * (10 * 12 + 7 * 12) && cost.bytes_written == 4 * 10 * 7);
static_assert(input_gradient.cost_of(types({y_type, weight_type}), types({x_type}), {}).flops == 2 * 10 * 7 * 12);
static_assert(weight_gradient.cost_of(types({y_type, x_type}), types({weight_type}), {}).flops == 2 * 10 * 7 * 12);
static_assert(weight_gradient.accumulating == 1 && bias_gradient.accumulating == 1);

struct plain_model {
  bool bias;
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    return ct::linear("head", ct::linear("middle", x, 5, {.bias = bias}), 4, {.bias = bias, .role = ct::role::head});
  }
};

// One weight in two products, and in a third as a table.
struct tied_model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const table = ct::parameter(tokens, "table", shape(6, 6), ct::role::embedding, {.stddev = 0.02});
    auto const x = ct::embedding(table, tokens);
    return ct::linear(ct::linear(x, table), table);
  }
};

// Rows of a matrix rather than of a batch of sequences.
struct flat_model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    return ct::linear("head", ct::linear("pool", ct::mean(x, ct::axis::tokens), 5), 4);
  }
};

template <auto model> using lm = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;

} // namespace

TEST_CASE("linear: gradients with and without bias") {
  check_gradients<lm<plain_model{true}>>();
  check_gradients<lm<plain_model{false}>, ct::accumulate<2>>();
}
TEST_CASE("linear: gradients of a tied weight") {
  check_gradients<lm<tied_model{}>>();
  check_gradients<lm<tied_model{}>, ct::accumulate<3>>();
}
TEST_CASE("linear: gradients on a matrix") {
  check_gradients<ct::task<flat_model{}, ct::classification, ct::micro_batch{.sequences = 3, .tokens = 4}>,
                  ct::accumulate<2>>();
}

TEST_CASE("linear: the parameters' names, shapes and roles") {
  using trainer = ct::trainer<lm<plain_model{true}>, ct::precision::fp64, ct::optimizer::sgd>;
  trainer t;
  auto const p = t.parameters();
  REQUIRE(p.size() == 5);
  CHECK(p[1].name == std::string_view("middle.weight"));
  CHECK(p[1].role == ct::role::weight);
  CHECK(p[2].name == std::string_view("middle.bias"));
  CHECK(p[2].role == ct::role::bias);
  CHECK(p[3].role == ct::role::head);
  CHECK(p[1].size() == 30);
}

TEST_CASE_TEMPLATE("linear: as PyTorch", real, float, double) {
  fixture const f("ops.safetensors");
  array<real> const x(shape(2, 5, 12), f.reals("linear.x")), weight(shape(7, 12), f.reals("linear.weight")),
      bias(shape(7), f.reals("linear.bias")), dy(shape(2, 5, 7), f.reals("linear.dy"));
  array<real> y(shape(2, 5, 7)), dx(shape(2, 5, 12)), dweight(shape(7, 12)), dbias(shape(7));
  call_kernel<ct::op::linear>(plain, x.in(), weight.in(), bias.in(), y.out());
  CHECK(relative_error(y.values(), f.reals("linear.y")) < tolerance<real>);
  call_kernel<ct::op::linear_input_gradient>(plain, dy.in(), weight.in(), dx.out());
  CHECK(relative_error(dx.values(), f.reals("linear.dx")) < tolerance<real>);
  call_kernel<ct::op::linear_weight_gradient>(plain, dy.in(), x.in(), dweight.out());
  CHECK(relative_error(dweight.values(), f.reals("linear.dweight")) < tolerance<real>);
  call_kernel<ct::op::linear_bias_gradient>(plain, dy.in(), dbias.out());
  CHECK(relative_error(dbias.values(), f.reals("linear.dbias")) < tolerance<real>);

  // The second micro-batch adds.
  call_kernel<ct::op::linear_weight_gradient>(adding(1), dy.in(), x.in(), dweight.out());
  call_kernel<ct::op::linear_bias_gradient>(adding(1), dy.in(), dbias.out());
  auto twice = f.reals("linear.dweight");
  for (auto& v : twice) v *= 2;
  CHECK(relative_error(dweight.values(), twice) < tolerance<real>);
  twice = f.reals("linear.dbias");
  for (auto& v : twice) v *= 2;
  CHECK(relative_error(dbias.values(), twice) < tolerance<real>);

  // Without a bias.
  array<real> product(shape(2, 5, 7));
  call_kernel<ct::op::linear>(plain, x.in(), weight.in(), product.out());
  auto expected = f.reals("linear.y");
  auto const b = f.reals("linear.bias");
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] -= b[i % 7];
  CHECK(relative_error(product.values(), expected) < tolerance<real>);
}

TEST_CASE_TEMPLATE("linear: bit-identical on any number of threads", real, float, double) {
  shape const rows(3, 67, 96), out(3, 67, 130);
  auto const x = array<real>::random(rows, 1), weight = array<real>::random(shape(130, 96), 2),
             bias = array<real>::random(shape(130), 3), dy = array<real>::random(out, 4);
  check_same_on_all_threads([&] {
    array<real> dbias(shape(130));
    call_kernel<ct::op::linear_bias_gradient>(plain, dy.in(), dbias.out());
    return dbias.values();
  });
  // oneDNN and CBLAS promise nothing of the kind for fp32.
  if (std::is_same_v<real, float> && ct::gemm_provider() != std::string_view("built-in")) return;
  check_same_on_all_threads([&] {
    array<real> y(out);
    call_kernel<ct::op::linear>(plain, x.in(), weight.in(), bias.in(), y.out());
    return y.values();
  });
  check_same_on_all_threads([&] {
    array<real> dx(rows);
    call_kernel<ct::op::linear_input_gradient>(plain, dy.in(), weight.in(), dx.out());
    return dx.values();
  });
  check_same_on_all_threads([&] {
    array<real> dweight(shape(130, 96));
    call_kernel<ct::op::linear_weight_gradient>(plain, dy.in(), x.in(), dweight.out());
    return dweight.values();
  });
}
