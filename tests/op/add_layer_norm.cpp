#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::bfloat16;
using ct::float16;
using ct::shape;

namespace {

// The shape rules are those of the ops that they replace.
constexpr auto forward = ct::info_of<ct::op::add_layer_norm>;
constexpr auto backward = ct::info_of<ct::op::layer_norm_gradient_add>;
constexpr auto x_type = f32(shape(2, 5, 12));
constexpr auto y = forward.infer(types({x_type, x_type, f32(shape(12)), f32(shape(12))}), {}).outputs;
static_assert(y.size() == 4 && y[0] == x_type && y[1] == x_type && y[2] == f32(shape(10)) && y[3] == f32(shape(10)));
static_assert(refuses<ct::op::widths_differ>(forward.infer(types({x_type, x_type, f32(shape(11)), f32(shape(11))}), {}),
                                             11, 12));
static_assert(refuses<ct::op::widths_differ>(
    forward.infer(types({x_type, f32(shape(2, 5, 11)), f32(shape(12)), f32(shape(12))}), {}), 12, 11));
constexpr auto dx =
    backward.infer(types({x_type, x_type, x_type, f32(shape(12)), f32(shape(10)), f32(shape(10))}), {}).outputs;
static_assert(dx.size() == 4 && dx[0] == x_type && dx[1] == f32(shape(12)) && dx[2] == f32(shape(12)));
static_assert(refuses<ct::op::widths_differ>(backward.infer(types({f32(shape(2, 5, 11)), x_type}), {}), 11, 12));
static_assert(forward.in_place == 0b11 && forward.gradient == nullptr);
static_assert(backward.in_place == 0b11 && backward.accumulating == 0b110 && backward.workspace == 0b1000);

// Fewer bytes: the sum is read once less; the norm's own gradient is neither written nor read.
constexpr double bytes(ct::cost const& c) { return c.bytes_read + c.bytes_written; }
constexpr auto separate_bytes =
    bytes(ct::info_of<ct::op::add>.cost_of(types({x_type, x_type}), types({x_type}), {})) +
    bytes(ct::info_of<ct::op::layer_norm>.cost_of(types({x_type, f32(shape(12)), f32(shape(12))}),
                                                  types({x_type, f32(shape(10)), f32(shape(10))}), {}));
static_assert(bytes(forward.cost_of(types({x_type, x_type, f32(shape(12)), f32(shape(12))}),
                                    types({x_type, x_type, f32(shape(10)), f32(shape(10))}), {})) ==
              separate_bytes - 4 * 120);

// Norms of sums that are read again, in a repeat and before it.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    x = x + ct::linear("first", x, 6);
    x = x + ct::linear("second", ct::layer_norm("norm", x), 6);
    x = ct::repeat("block", 3, x, [](ct::value x) {
      x = x + ct::linear("one", ct::layer_norm("norm_1", x), 6);
      return x + ct::silu(ct::linear("two", ct::layer_norm("norm_2", x), 6));
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
static_assert(calls<ct::op::add_layer_norm>() == 2 && calls<ct::op::layer_norm>() == 1);
static_assert(calls<ct::op::layer_norm_gradient_add>() == 3 && calls<ct::op::layer_norm_gradient>() == 0);

template <class real> struct problem {
  using sum = ct::storage<ct::accumulator_of(ct::dtype_of<real>)>;
  shape x_shape, width, rows, partial_shape;
  array<real> a, b, dy, residual;
  array<sum> weight, bias;
  ct::attributes epsilon = ct::pack(ct::layer_norm_options{.epsilon = 1e-5});

  explicit problem(shape s)
      : x_shape(s), width(s.features()), rows(s.rows()),
        partial_shape(ct::op::layer_norm_gradient::chunks, 2, s.features()), a(random(1)), b(random(2)), dy(random(3)),
        residual(random(4)), weight(array<sum>::random(width, 5)), bias(array<sum>::random(width, 6)) {}
  array<real> random(unsigned seed) const { return {x_shape, array<float>::random(x_shape, seed).values()}; }
};

template <class real> struct result {
  using sum = typename problem<real>::sum;
  array<real> total, y, dx;
  array<sum> mean, stddev, dweight, dbias, partial;
  explicit result(problem<real> const& p)
      : total(p.x_shape), y(p.x_shape), dx(p.x_shape), mean(p.rows), stddev(p.rows), dweight(p.width), dbias(p.width),
        partial(p.partial_shape) {}

  void separate(problem<real> const& p, unsigned adds) {
    array<real> own(p.x_shape);
    call_kernel<ct::op::add>(plain, p.a.in(), p.b.in(), total.out());
    call_kernel<ct::op::layer_norm>(ct::call{p.epsilon, no_parameters}, total.in(), p.weight.in(), p.bias.in(), y.out(),
                                    mean.out(), stddev.out());
    call_kernel<ct::op::layer_norm_gradient>(adding(adds), p.dy.in(), total.in(), p.weight.in(), mean.in(), stddev.in(),
                                             own.out(), dweight.out(), dbias.out(), partial.out());
    call_kernel<ct::op::add>(plain, p.residual.in(), own.in(), dx.out());
  }
  void fused(problem<real> const& p, unsigned adds) {
    call_kernel<ct::op::add_layer_norm>(ct::call{p.epsilon, no_parameters}, p.a.in(), p.b.in(), p.weight.in(),
                                        p.bias.in(), total.out(), y.out(), mean.out(), stddev.out());
    gradient(p, adds, p.residual.in(), p.dy.in(), dx.out());
  }
  void gradient(problem<real> const& p, unsigned adds, ct::tensor<real const> residual, ct::tensor<real const> dy,
                ct::tensor<real> to) {
    call_kernel<ct::op::layer_norm_gradient_add>(adding(adds), residual, dy, total.in(), p.weight.in(), mean.in(),
                                                 stddev.in(), to, dweight.out(), dbias.out(), partial.out());
  }
};

template <class T> std::vector<double> wide(array<T> const& a) {
  std::vector<double> values;
  for (auto x : a.values()) values.push_back(static_cast<double>(ct::arithmetic<T>(x)));
  return values;
}

} // namespace

TEST_CASE("add_layer_norm: gradients") {
  check_gradients<task>();
  check_gradients<task, ct::accumulate<2>, ct::checkpoint::every<2>>();
}

TEST_CASE_TEMPLATE("add_layer_norm: as the ops that it stands for", real, float, double, float16, bfloat16) {
  for (auto const& s : {shape(1, 7), shape(37, 33), shape(3, 5, 64)}) {
    problem<real> const p(s);
    result<real> expected(p), got(p);
    for (unsigned adds : {0u, 0b110u}) {
      expected.separate(p, adds);
      got.fused(p, adds);
      // The forward pass is bit-identical, so it does not matter where a checkpointed body is fused.
      CHECK(same_bits(got.total.values(), expected.total.values()));
      CHECK(same_bits(got.y.values(), expected.y.values()));
      CHECK(same_bits(got.mean.values(), expected.mean.values()));
      CHECK(same_bits(got.stddev.values(), expected.stddev.values()));
      CHECK(relative_error(wide(got.dx), wide(expected.dx)) <= tolerance<real>);
      CHECK(relative_error(wide(got.dweight), wide(expected.dweight)) <= tolerance<real>);
      CHECK(relative_error(wide(got.dbias), wide(expected.dbias)) <= tolerance<real>);
    }
    // The results may overwrite the operands.
    auto over_a = p.a, over_residual = p.residual, over_dy = p.dy;
    result<real> again(p);
    call_kernel<ct::op::add_layer_norm>(ct::call{p.epsilon, no_parameters}, over_a.in(), p.b.in(), p.weight.in(),
                                        p.bias.in(), over_a.out(), again.y.out(), again.mean.out(), again.stddev.out());
    CHECK(same_bits(over_a.values(), got.total.values()));
    CHECK(same_bits(again.y.values(), got.y.values()));
    got.gradient(p, 0, over_residual.in(), p.dy.in(), over_residual.out());
    CHECK(same_bits(over_residual.values(), got.dx.values()));
    got.gradient(p, 0, p.residual.in(), over_dy.in(), over_dy.out());
    CHECK(same_bits(over_dy.values(), got.dx.values()));
  }
}

TEST_CASE_TEMPLATE("add_layer_norm: bit-identical on any number of threads", real, float, double) {
  problem<real> const p(shape(131, 48));
  auto const run = [&] {
    result<real> r(p);
    r.fused(p, 0);
    return r;
  };
  check_same_on_all_threads([&] { return run().y.values(); });
  check_same_on_all_threads([&] { return run().dx.values(); });
  check_same_on_all_threads([&] { return run().dweight.values(); });
}
