#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

static_assert(ct::op::mean::infer(types({f32(shape(2, 5, 12))}), {.dimension = 1}).outputs[0] == f32(shape(2, 12)));
static_assert(ct::op::mean::infer(types({f32(shape(2, 5, 12))}), {.dimension = 2}).outputs[0] == f32(shape(2, 5)));
static_assert(
    refuses<ct::op::mean::no_such_dimension>(ct::op::mean::infer(types({f32(shape(2, 12))}), {.dimension = 2}), 2, 2));
static_assert(refuses<ct::op::mean::no_such_dimension>(ct::op::mean::infer(types({f32(shape(2, 12))}),
                                                                           {.dimension = -1}),
                                                       2, -1));
static_assert(ct::op::mean_gradient::infer(types({f32(shape(2, 12))}), {.dimension = 1, .extent = 5}).outputs[0] ==
              f32(shape(2, 5, 12)));
static_assert(ct::op::mean_gradient::infer(types({f32(shape(2, 5))}), {.dimension = 2, .extent = 12}).outputs[0] ==
              f32(shape(2, 5, 12)));

// One class a sequence from the mean over its tokens; one from each token's mean over its features.
struct over_tokens {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    return ct::linear("head", ct::mean(ct::silu(x), ct::axis::tokens), 5);
  }
};
struct over_features {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    return ct::linear("head", ct::mean(x * x, ct::axis::features), 5);
  }
};
template <class model>
using classified = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 3, .tokens = 4}>;

} // namespace

TEST_CASE("mean: gradients over tokens and over features") {
  check_gradients<classified<over_tokens>>();
  check_gradients<classified<over_tokens>, ct::accumulate<2>>();
  check_gradients<classified<over_features>>();
}

TEST_CASE_TEMPLATE("mean: over tokens as PyTorch", real, float, double) {
  fixture const f("ops.safetensors");
  auto const options = ct::pack(ct::op::mean_gradient::options{.dimension = 1, .extent = 5});
  array<real> const x(shape(2, 5, 12), f.reals("mean.x")), dy(shape(2, 12), f.reals("mean.dy"));
  array<real> y(shape(2, 12)), dx(shape(2, 5, 12));
  call_kernel<ct::op::mean>(ct::call{options, no_parameters}, x.in(), y.out());
  CHECK(relative_error(y.values(), f.reals("mean.y")) < tolerance<real>);
  call_kernel<ct::op::mean_gradient>(ct::call{options, no_parameters}, dy.in(), dx.out());
  CHECK(relative_error(dx.values(), f.reals("mean.dx")) < tolerance<real>);
}

TEST_CASE_TEMPLATE("mean: over features", real, float, double) {
  auto const options = ct::pack(ct::op::mean_gradient::options{.dimension = 2, .extent = 4});
  array<real> const x(shape(1, 2, 4), {1, 2, 3, 6, /**/ -1, 1, -1, 1}), dy(shape(1, 2), {4, 8});
  array<real> y(shape(1, 2)), dx(shape(1, 2, 4));
  call_kernel<ct::op::mean>(ct::call{options, no_parameters}, x.in(), y.out());
  CHECK(y.values() == std::vector<real>{3, 0});
  call_kernel<ct::op::mean_gradient>(ct::call{options, no_parameters}, dy.in(), dx.out());
  CHECK(dx.values() == std::vector<real>{1, 1, 1, 1, 2, 2, 2, 2});
}

TEST_CASE("mean: bit-identical on any number of threads") {
  auto const options = ct::pack(ct::op::mean_gradient::options{.dimension = 1, .extent = 70});
  auto const x = array<float>::random(shape(6, 70, 64), 1);
  check_same_on_all_threads([&] {
    array<float> y(shape(6, 64));
    call_kernel<ct::op::mean>(ct::call{options, no_parameters}, x.in(), y.out());
    return y.values();
  });
}
