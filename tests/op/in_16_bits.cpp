#include "op/qkv.hpp"

#include <cmath>

// Every op's kernels on 16-bit elements against the same kernels in fp32, on the same inputs (both 16-bit types have
// them): within `tolerance` of the tensor's norm.

namespace ct = constrain;
using namespace constrain::test;
using ct::bfloat16;
using ct::float16;
using ct::shape;

namespace {

template <class T> array<T> values(shape s, unsigned seed, double stddev = 1) {
  auto const wide = array<float>::random(s, seed, stddev);
  std::vector<T> all;
  for (float x : wide.values()) all.push_back(static_cast<T>(float(float16(float(bfloat16(x))))));
  return array<T>(s, all);
}

template <class one, class other> void close(array<one> const& narrow, array<other> const& wide, double bound) {
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < wide.values().size(); ++i) {
    double const x = float(narrow[i]), y = float(wide[i]);
    apart += (x - y) * (x - y);
    size += y * y;
  }
  CHECK(std::sqrt(apart / size) <= bound);
}

// Runs `make<T>` (which returns the arrays that the kernels wrote) for all types and compares all arrays.
template <class function> void compare(function const& make) {
  auto const wide = make(float{});
  auto const compare_to = [&]<class T>(T) {
    auto const narrow = make(T{});
    std::apply([&](auto const&... n) { std::apply([&](auto const&... w) { (close(n, w, tolerance<T>), ...); }, wide); },
               narrow);
  };
  compare_to(float16{}), compare_to(bfloat16{});
}

constexpr shape x_shape(3, 7, 24);

} // namespace

TEST_CASE("16 bits: add, multiply, copy") {
  compare([]<class T>(T) {
    array<T> sum(x_shape), product(x_shape);
    auto const a = values<T>(x_shape, 1), b = values<T>(x_shape, 2);
    call_kernel<ct::op::add>(plain, a.in(), b.in(), sum.out());
    call_kernel<ct::op::multiply>(plain, a.in(), b.in(), product.out());
    array<float> copied(x_shape);
    call_kernel<ct::op::copy>(plain, a.in(), copied.out());
    return std::tuple(sum, product, copied);
  });
}

TEST_CASE("16 bits: soft_cap and its derivative") {
  compare([]<class T>(T) {
    auto const options = ct::pack(ct::soft_cap_options{.cap = 2});
    array<T> y(x_shape), dx(x_shape);
    call_kernel<ct::op::soft_cap>(ct::call{options, no_parameters}, values<T>(x_shape, 1).in(), y.out());
    auto const kept = values<T>(x_shape, 2);
    call_kernel<ct::op::soft_cap_gradient>(ct::call{options, no_parameters}, values<T>(x_shape, 3).in(), kept.in(),
                                           dx.out());
    return std::tuple(y, dx);
  });
}

TEST_CASE("16 bits: gelu, gelu_tanh, silu and their derivatives") {
  auto const check = []<class functor>(functor) {
    compare([]<class T>(T) {
      array<T> y(x_shape), dx(x_shape);
      auto const x = values<T>(x_shape, 3), dy = values<T>(x_shape, 4);
      call_kernel<ct::op::elementwise<functor>>(plain, x.in(), y.out());
      call_kernel<ct::op::elementwise_gradient<functor>>(plain, dy.in(), x.in(), dx.out());
      return std::tuple(y, dx);
    });
  };
  check(ct::op::gelu{}), check(ct::op::gelu_tanh{}), check(ct::op::silu{});
}

TEST_CASE("16 bits: linear and its gradients") {
  compare([]<class T>(T) {
    shape const y_shape(3, 7, 10), w_shape(10, 24), b_shape(10);
    array<T> y(y_shape), dx(x_shape);
    array<float> dw(w_shape), db(b_shape);
    auto const x = values<T>(x_shape, 5), w = values<T>(w_shape, 6), dy = values<T>(y_shape, 8);
    auto const b = values<float>(b_shape, 7);
    call_kernel<ct::op::linear>(plain, x.in(), w.in(), b.in(), y.out());
    call_kernel<ct::op::linear_input_gradient>(plain, dy.in(), w.in(), dx.out());
    call_kernel<ct::op::linear_weight_gradient>(plain, dy.in(), x.in(), dw.out());
    call_kernel<ct::op::linear_bias_gradient>(plain, dy.in(), db.out());
    return std::tuple(y, dx, dw, db);
  });
}

TEST_CASE("16 bits: embedding, positions, mean and their gradients") {
  compare([]<class T>(T) {
    shape const tokens_shape(3, 7), table_shape(11, 24), positions_shape(9, 24), mean_shape(3, 24);
    auto const tokens = array<std::int32_t>::integers(tokens_shape, 1, 11);
    auto const table = values<T>(table_shape, 9), position_embedding = values<T>(positions_shape, 10),
               dy = values<T>(x_shape, 11);
    array<T> y(x_shape), z(x_shape), m(mean_shape), dm(x_shape);
    array<float> dtable(table_shape), dpositions(positions_shape);
    call_kernel<ct::op::embedding>(plain, table.in(), tokens.in(), y.out());
    call_kernel<ct::op::position_embedding>(plain, y.in(), position_embedding.in(), z.out());
    call_kernel<ct::op::embedding_gradient>(plain, dy.in(), tokens.in(), dtable.out());
    call_kernel<ct::op::position_embedding_gradient>(plain, dy.in(), dpositions.out());
    auto const over_tokens = ct::pack(ct::op::mean_gradient::options{.dimension = 1, .extent = 7});
    ct::call const c{over_tokens, no_parameters};
    call_kernel<ct::op::mean>(c, z.in(), m.out());
    call_kernel<ct::op::mean_gradient>(c, values<T>(mean_shape, 12).in(), dm.out());
    return std::tuple(y, z, dtable, dpositions, m, dm);
  });
}

TEST_CASE("16 bits: layer_norm and its gradients") {
  compare([]<class T>(T) {
    shape const width(24), rows(21), partial_shape(ct::op::layer_norm_gradient::chunks, 2, 24);
    auto const x = values<T>(x_shape, 13), dy = values<T>(x_shape, 14);
    auto const weight = values<float>(width, 15), bias = values<float>(width, 16);
    array<T> y(x_shape), dx(x_shape);
    array<float> mean(rows), stddev(rows), dweight(width), dbias(width), partial(partial_shape);
    auto const epsilon = ct::pack(ct::layer_norm_options{.epsilon = 1e-5});
    ct::call const c{epsilon, no_parameters};
    call_kernel<ct::op::layer_norm>(c, x.in(), weight.in(), bias.in(), y.out(), mean.out(), stddev.out());
    call_kernel<ct::op::layer_norm_gradient>(plain, dy.in(), x.in(), weight.in(), mean.in(), stddev.in(), dx.out(),
                                             dweight.out(), dbias.out(), partial.out());
    return std::tuple(y, mean, stddev, dx, dweight, dbias);
  });
}

TEST_CASE("16 bits: focal_loss and its gradient") {
  compare([]<class T>(T) {
    shape const rows(3, 7), scalar;
    auto const logits = values<T>(x_shape, 19, 3);
    auto labels = array<std::int32_t>::integers(rows, 20, 24);
    labels[4] = ct::ignored_label;
    array<double> loss(scalar), row_loss(rows), one(scalar, {1.0});
    array<double> const inverse_count(scalar, {1.0 / 20});
    array<float> sums(shape(21));
    array<T> dlogits(x_shape);
    auto const options = ct::pack(ct::focal_loss_options{.gamma = 2});
    ct::call const c{options, no_parameters};
    call_kernel<ct::op::focal_loss>(c, logits.in(), labels.in(), inverse_count.in(), loss.out(), sums.out(),
                                    row_loss.out());
    call_kernel<ct::op::focal_loss_gradient>(c, one.in(), logits.in(), labels.in(), sums.in(), inverse_count.in(),
                                             dlogits.out());
    return std::tuple(loss, sums, dlogits);
  });
}

TEST_CASE("16 bits: rms_norm and its gradients") {
  compare([]<class T>(T) {
    shape const width(24), rows(21), partial_shape(ct::op::rms_norm_gradient::chunks, 24);
    auto const x = values<T>(x_shape, 21), dy = values<T>(x_shape, 22);
    auto const weight = values<float>(width, 23);
    array<T> y(x_shape), dx(x_shape);
    array<float> rstd(rows), dweight(width), partial(partial_shape);
    auto const epsilon = ct::pack(ct::rms_norm_options{.epsilon = 1e-5});
    ct::call const c{epsilon, no_parameters};
    call_kernel<ct::op::rms_norm>(c, x.in(), weight.in(), y.out(), rstd.out());
    call_kernel<ct::op::rms_norm_gradient>(plain, dy.in(), x.in(), weight.in(), rstd.in(), dx.out(), dweight.out(),
                                           partial.out());
    return std::tuple(y, rstd, dx, dweight);
  });
}

TEST_CASE("16 bits: attention and its gradient") {
  constexpr ct::attention_options cases[] = {{2, false}, {2, true}, {4, false, 2}, {4, true, 2}};
  for (auto const& o : cases)
    compare([=]<class T>(T) {
      shape const qkv_shape = o.key_value_heads == 0 ? x_shape : shape(3, 7, 32), scores(3, o.heads, 7, 7);
      shape const y_shape = qkv_shape.with_features(o.key_value_heads == 0 ? 8 : 16);
      auto const qkv = values<T>(qkv_shape, 17), dy = values<T>(y_shape, 18);
      array<T> y(y_shape), dqkv(qkv_shape);
      array<float> p(scores), dp(scores);
      auto const options = ct::pack(o);
      ct::call const c{options, no_parameters};
      qkv_operands<T const> const x(qkv[0], qkv_shape, o);
      qkv_operands<T> const dx(dqkv[0], qkv_shape, o);
      call_kernel<ct::op::attention>(c, x.q(), x.k(), x.v(), y.out(), p.out());
      call_kernel<ct::op::attention_gradient>(c, dy.in(), x.q(), x.k(), x.v(), p.in(), dx.q(), dx.k(), dx.v(),
                                              dp.out());
      return std::tuple(y, p, dqkv);
    });
}

TEST_CASE("16 bits: cross_entropy, its gradient, accuracy and dropout") {
  compare([]<class T>(T) {
    shape const rows(3, 7), scalar;
    auto const logits = values<T>(x_shape, 19, 3);
    auto labels = array<std::int32_t>::integers(rows, 20, 24);
    labels[4] = ct::ignored_label;
    array<double> loss(scalar), row_loss(rows), correct(scalar), one(scalar, {1.0});
    array<double> const inverse_count(scalar, {1.0 / 20}), rate(scalar, {0.25});
    array<float> sums(shape(21));
    array<T> dlogits(x_shape), dropped(x_shape);
    call_kernel<ct::op::cross_entropy>(plain, logits.in(), labels.in(), inverse_count.in(), loss.out(), sums.out(),
                                       row_loss.out());
    call_kernel<ct::op::cross_entropy_gradient>(plain, one.in(), logits.in(), labels.in(), sums.in(),
                                                inverse_count.in(), dlogits.out());
    call_kernel<ct::op::correct_predictions>(plain, logits.in(), labels.in(), correct.out());
    call_kernel<ct::op::dropout>(plain, logits.in(), rate.in(), dropped.out());
    return std::tuple(loss, sums, dlogits, dropped);
  });
}
