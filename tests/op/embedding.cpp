#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::embedding>;
constexpr auto gradient_rule = ct::info_of<ct::op::embedding_gradient>;
static_assert(rule.infer(types({f32(shape(11, 12)), i32(shape(2, 5))}), {}).outputs[0] == f32(shape(2, 5, 12)));
static_assert(refuses<ct::op::embedding::tokens_are_not_integers>(
    rule.infer(types({f32(shape(11, 12)), f32(shape(2, 5))}), {}), 0, 0));
static_assert(refuses<ct::op::too_many_dimensions>(rule.infer(types({f32(shape(11, 12)), i32(shape(2, 3, 4, 5))}), {}),
                                                   4, 5));
static_assert(ct::op::embedding_gradient::infer(types({f32(shape(2, 5, 12)), i32(shape(2, 5))}), {.vocabulary = 11})
                  .outputs[0] == f32(shape(11, 12)));
static_assert(gradient_rule.accumulating == 1);

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    return ct::linear("head", x + ct::embedding("other", tokens, {.vocabulary = 9, .width = 6}), 5);
  }
};
// The tokens are looked up twice in one table, which is the head too.
struct tied_model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const table = ct::parameter(tokens, "table", shape(7, 6), ct::role::embedding, {.stddev = 0.02});
    return ct::linear(ct::silu(ct::embedding(table, tokens)) + ct::embedding(table, tokens), table);
  }
};
template <class model> using lm = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;

// Tokens are checked against the smallest table that they are looked up in.
static_assert(ct::trainer<lm<model>, ct::precision::fp32, ct::optimizer::sgd>::entries::vocabulary == 7);

} // namespace

TEST_CASE("embedding: gradients") {
  check_gradients<lm<model>>();
  check_gradients<lm<model>, ct::accumulate<2>>();
}
TEST_CASE("embedding: gradients of a tied table") {
  check_gradients<lm<tied_model>>();
  check_gradients<lm<tied_model>, ct::accumulate<2>>();
}

TEST_CASE_TEMPLATE("embedding: as PyTorch", real, float, double) {
  fixture const f("ops.safetensors");
  array<std::int32_t> const tokens(shape(2, 5), f.integers("embedding.tokens"));
  array<real> const weight(shape(11, 12), f.reals("embedding.weight")), dy(shape(2, 5, 12), f.reals("embedding.dy"));
  array<real> y(shape(2, 5, 12)), dweight(shape(11, 12));
  call_kernel<ct::op::embedding>(plain, weight.in(), tokens.in(), y.out());
  CHECK(relative_error(y.values(), f.reals("embedding.y")) < tolerance<real>);
  call_kernel<ct::op::embedding_gradient>(plain, dy.in(), tokens.in(), dweight.out());
  CHECK(relative_error(dweight.values(), f.reals("embedding.dweight")) < tolerance<real>);
  call_kernel<ct::op::embedding_gradient>(adding(1), dy.in(), tokens.in(), dweight.out());
  auto twice = f.reals("embedding.dweight");
  for (auto& v : twice) v *= 2;
  CHECK(relative_error(dweight.values(), twice) < tolerance<real>);
}

TEST_CASE("embedding: bit-identical on any number of threads") {
  auto const tokens = array<std::int32_t>::integers(shape(4, 60), 1, 9); // each token many times
  auto const dy = array<float>::random(shape(4, 60, 200), 2), table = array<float>::random(shape(9, 200), 3);
  check_same_on_all_threads([&] {
    array<float> dtable(shape(9, 200));
    call_kernel<ct::op::embedding_gradient>(plain, dy.in(), tokens.in(), dtable.out());
    return dtable.values();
  });
  check_same_on_all_threads([&] {
    array<float> y(shape(4, 60, 200));
    call_kernel<ct::op::embedding>(plain, table.in(), tokens.in(), y.out());
    return y.values();
  });
}
