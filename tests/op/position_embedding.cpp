#include "check_gradients.hpp"
#include "op/call_kernel.hpp"
#include "relative_error.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::position_embedding>;
constexpr auto gradient_rule = ct::info_of<ct::op::position_embedding_gradient>;
constexpr auto x_type = f32(shape(2, 5, 12));
static_assert(rule.infer(types({x_type, f32(shape(8, 12))}), {}).outputs[0] == x_type);
static_assert(refuses<ct::op::position_embedding::sequence_longer_than_context>(
    rule.infer(types({x_type, f32(shape(4, 12))}), {}), 4, 5));
static_assert(refuses<ct::op::widths_differ>(rule.infer(types({x_type, f32(shape(8, 11))}), {}), 11, 12));
static_assert(refuses<ct::op::weight_is_not_a_matrix>(rule.infer(types({x_type, f32(shape(8, 1, 12))}), {}), 2, 3));
static_assert(refuses<ct::op::wrong_number_of_dimensions>(rule.infer(types({f32(shape(5, 12)), f32(shape(8, 12))}), {}),
                                                          3, 2));
static_assert(ct::op::position_embedding_gradient::infer(types({x_type}), {.rows = 8}).outputs[0] == f32(shape(8, 12)));
static_assert(gradient_rule.accumulating == 1);

// The context is longer than the sequences: the last rows have no gradient, also in the first micro-batch.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    return ct::linear("head", ct::dropout(ct::position_embedding("position", x, {.context = 6})), 5);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;

// Prefix tuning: a vector, which stays fp32 in mixed precision, stands before the tokens of each sequence.
struct prefixed {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    auto const prefix =
        ct::reshape(ct::parameter(x, "prefix", shape(6), ct::role::bias, {.stddev = 1}), shape(1, 1, 6));
    auto all = prefix;
    for (int i = 1; i < x.shape().extent[0]; ++i) all = ct::concatenate({all, prefix}, 0);
    all = ct::concatenate({all, x}, 1);
    return ct::linear("head", ct::select_token(ct::position_embedding("position", all, {.context = 6}), 0), 5);
  }
};

template <class precision> std::vector<double> table_gradient() {
  ct::trainer<ct::task<prefixed{}, ct::classification, ct::micro_batch{.sequences = 2, .tokens = 4}>, precision> t;
  std::vector<std::int32_t> const inputs{0, 3, 1, 6, 2, 5, 4, 0}, labels{3, 1};
  t.step(t.batch(inputs, labels));
  std::vector<double> values(36);
  t.gradient("position.weight").copy_to(std::span(values));
  REQUIRE(values[0] != 0);
  return values;
}

} // namespace

TEST_CASE("position_embedding: gradients") {
  check_gradients<task>();
  check_gradients<task, ct::accumulate<2>>();
}

TEST_CASE("position_embedding: an x that mixed precision keeps in fp32 and a 16-bit table are promoted") {
  CHECK(relative_error(table_gradient<ct::precision::bf16>(), table_gradient<ct::precision::fp32>()) <= 1.6e-2);
}

TEST_CASE_TEMPLATE("position_embedding: adds a row of the table to each token", real, float, double) {
  shape const s(2, 2, 3);
  array<real> const x(s, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  array<real> const table(shape(3, 3), {10, 20, 30, 40, 50, 60, 70, 80, 90});
  array<real> y(s), dtable(shape(3, 3));
  call_kernel<ct::op::position_embedding>(plain, x.in(), table.in(), y.out());
  CHECK(y.values() == std::vector<real>{11, 22, 33, 44, 55, 66, 17, 28, 39, 50, 61, 72});
  auto over = x;
  call_kernel<ct::op::position_embedding>(plain, over.in(), table.in(), over.out());
  CHECK(over.values() == y.values());

  call_kernel<ct::op::position_embedding_gradient>(plain, x.in(), dtable.out());
  CHECK(dtable.values() == std::vector<real>{8, 10, 12, 14, 16, 18, 0, 0, 0});
  call_kernel<ct::op::position_embedding_gradient>(adding(1), x.in(), dtable.out());
  CHECK(dtable.values() == std::vector<real>{16, 20, 24, 28, 32, 36, 0, 0, 0});
}

TEST_CASE("position_embedding: bit-identical on any number of threads") {
  auto const dy = array<float>::random(shape(7, 90, 64), 1);
  check_same_on_all_threads([&] {
    array<float> dtable(shape(100, 64));
    call_kernel<ct::op::position_embedding_gradient>(plain, dy.in(), dtable.out());
    return dtable.values();
  });
}
