#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

static_assert(ct::op::select_token::infer(types({f32(shape(2, 5, 12))}), {.index = 4}).outputs[0] == f32(shape(2, 12)));
using select = ct::op::select_token;
static_assert(refuses<select::no_such_token>(select::infer(types({f32(shape(2, 5, 12))}), {.index = 5}), 5, 5));
static_assert(refuses<select::no_such_token>(select::infer(types({f32(shape(2, 5, 12))}), {.index = -1}), 5, -1));
static_assert(refuses<ct::op::wrong_number_of_dimensions>(select::infer(types({f32(shape(2, 12))}), {.index = 0}), 3,
                                                          2));
static_assert(refuses<ct::op::integers_instead_of_floats>(select::infer(types({i32(shape(2, 5, 12))}), {.index = 0}), 0,
                                                          0));

template <int index> struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    return ct::linear("head", ct::select_token(ct::silu(x), index) + ct::mean(x, ct::axis::tokens), 5);
  }
};
template <int index>
using task = ct::task<model<index>{}, ct::classification, ct::micro_batch{.sequences = 3, .tokens = 4}>;

} // namespace

TEST_CASE("select_token: gradients") {
  check_gradients<task<0>>();
  check_gradients<task<3>>();
}

TEST_CASE_TEMPLATE("select_token: the token of each sequence, and where its gradient goes", real, float, double) {
  auto const options = ct::pack(ct::op::select_token_gradient::options{.index = 1, .tokens = 3});
  array<real> const x(shape(2, 3, 2), {1, 2, 3, 4, 5, 6, /**/ 7, 8, 9, 10, 11, 12}), dy(shape(2, 2), {1, 2, 3, 4});
  array<real> y(shape(2, 2)), dx(shape(2, 3, 2));
  call_kernel<ct::op::select_token>(ct::call{options, no_parameters}, x.in(), y.out());
  CHECK(y.values() == std::vector<real>{3, 4, 9, 10});
  call_kernel<ct::op::select_token_gradient>(ct::call{options, no_parameters}, dy.in(), dx.out());
  CHECK(dx.values() == std::vector<real>{0, 0, 1, 2, 0, 0, /**/ 0, 0, 3, 4, 0, 0});
}
