#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using gather = ct::op::gather_rows;
using scatter = ct::op::scatter_rows;
static_assert(gather::infer(types({f32(shape(5, 3)), i32(shape(2))})).outputs[0] == f32(shape(2, 3)));
static_assert(gather::infer(types({i32(shape(5)), i32(shape(4))})).outputs[0] == i32(shape(4)));
static_assert(scatter::infer(types({f32(shape(2, 3)), i32(shape(2))}), {.to = shape(4, 5, 3)}).outputs[0] ==
              f32(shape(4, 5, 3)));
// 2 rows of 3 elements of 4 bytes, and 2 row numbers, whatever x has besides.
static_assert(gather::cost_of(types({f32(shape(50, 3)), i32(shape(2))}), types({f32(shape(2, 3))})).bytes_read == 32);
static_assert(scatter::cost_of(types({f32(shape(2, 3)), i32(shape(2))}), types({f32(shape(50, 3))})).bytes_read == 56);

/// The cross-entropy of the logits and the labels in another order.
struct reordered {
  constexpr ct::value operator()(ct::value logits, ct::value labels) const {
    auto const order = ct::emit<ct::op::valid_first>({labels}, {}, 0);
    return ct::cross_entropy(ct::emit<gather>({logits, order}, {}, 0), ct::emit<gather>({labels, order}, {}, 0));
  }
};
struct classifier {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 5);
  }
};
template <class objective> using task = ct::task<classifier{}, objective, ct::micro_batch{.sequences = 9, .tokens = 4}>;

} // namespace

TEST_CASE("gather_rows: gradients") { check_gradients<task<reordered>>(); }

TEST_CASE("gather_rows: in any order, the loss of all rows is the same") {
  using trainer = ct::trainer<task<reordered>, ct::precision::fp64>;
  ct::trainer<task<ct::classification>, ct::precision::fp64> as_they_are;
  auto const w = random_batch::draw<trainer>(2);
  CHECK(trainer().step(trainer().batch(w.inputs, w.labels)).loss ==
        doctest::Approx(as_they_are.step(as_they_are.batch(w.inputs, w.labels)).loss).epsilon(1e-14));
}

TEST_CASE_TEMPLATE("gather_rows: the rows, and where their gradient goes", real, ct::float16, float, double) {
  array<std::int32_t> const rows(shape(2), {3, 0});
  array<real> const x(shape(4, 2), std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  array<real> const dy(shape(2, 2), std::vector<float>{10, 20, 30, 40});
  array<real> y(shape(2, 2)), dx(shape(2, 2, 2));
  call_kernel<gather>(plain, x.in(), rows.in(), y.out());
  CHECK(y.values() == array<real>(shape(2, 2), std::vector<float>{7, 8, 1, 2}).values());
  auto const options = ct::pack(scatter::options{.to = shape(2, 2, 2)});
  ct::call c{options, no_parameters};
  call_kernel<scatter>(c, dy.in(), rows.in(), dx.out());
  CHECK(dx.values() == array<real>(shape(8), std::vector<float>{30, 40, 0, 0, 0, 0, 10, 20}).values());
  // Later writes add.
  c.adds = 1;
  array<std::int32_t> const others(shape(2), {1, 3});
  call_kernel<scatter>(c, dy.in(), others.in(), dx.out());
  CHECK(dx.values() == array<real>(shape(8), std::vector<float>{30, 40, 10, 20, 0, 0, 40, 60}).values());
}

TEST_CASE("gather_rows: the rows of integers") {
  array<std::int32_t> const labels(shape(4), {5, ct::ignored_label, 6, 7}), rows(shape(3), {2, 3, 1});
  array<std::int32_t> moved(shape(3));
  call_kernel<gather>(plain, labels.in(), rows.in(), moved.out());
  CHECK(moved.values() == std::vector<std::int32_t>{6, 7, ct::ignored_label});
}

TEST_CASE("gather_rows: bit-identical on any number of threads") {
  shape const all(300, 70);
  auto const x = array<float>::random(all, 1);
  array<std::int32_t> rows(shape(250));
  for (std::int32_t i = 0; i < 250; ++i) rows[static_cast<std::size_t>(i)] = (i * 7 + 3) % 300;
  check_same_on_all_threads([&] {
    array<float> y(shape(250, 70)), dx(all);
    call_kernel<gather>(plain, x.in(), rows.in(), y.out());
    auto const options = ct::pack(scatter::options{.to = all});
    call_kernel<scatter>(ct::call{options, no_parameters}, y.in(), rows.in(), dx.out());
    return dx.values();
  });
}
