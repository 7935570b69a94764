#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

#include <algorithm>
#include <cmath>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::dropout>;
static_assert(rule.infer(types({f32(shape(2, 5, 12))}), {}).outputs[0] == f32(shape(2, 5, 12)));
static_assert(rule.only_in_training && rule.in_place == 1);

// One after another, and one value dropped twice.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::dropout(ct::embedding("token", tokens, {.vocabulary = 7, .width = 6}));
    return ct::linear("head", ct::dropout(x) + ct::dropout(ct::silu(ct::dropout(x))), 5);
  }
};
// The same, with ops before it and beside it that draw nothing.
struct model_with_more {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const embedded = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    ct::gelu(ct::silu(embedded));
    auto const x = ct::dropout(embedded);
    ct::silu(x * x);
    return ct::linear("head", ct::dropout(x) + ct::dropout(ct::silu(ct::dropout(x))), 5);
  }
};
struct plain_model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    return ct::linear("head", x + ct::silu(x), 5);
  }
};
template <class model> using lm = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;

// The calls that draw are numbered in their order, and no others are.
template <class model> constexpr bool keys_count_draws() {
  int drawn = 0;
  auto const p = lm<model>::build(ct::entry::step, ct::dtype::f32);
  for (auto const& n : p.nodes)
    if (n.random_key != (ct::calls(n, ct::info_of<ct::op::dropout>) ? ++drawn : 0)) return false;
  return drawn == 4;
}
static_assert(keys_count_draws<model>() && keys_count_draws<model_with_more>());

// The position of an element in the computation.
struct place {
  double rate = 0.25;
  std::uint64_t seed = 1;
  std::int64_t step = 0;
  int node = 1;
  std::uint64_t iteration = 0;
  std::int64_t first_sample = 0;

  template <class real> array<real> dropped(array<real> const& x) const {
    ct::step_parameters parameters;
    parameters.seed = seed;
    parameters.step = step;
    ct::call c{no_attributes, parameters};
    c.random_key = node;
    c.iteration = iteration;
    c.first_sample = first_sample;
    array<real> y(x.in().shape());
    call_kernel<ct::op::dropout>(c, x.in(), array<double>(shape{}, {rate}).in(), y.out());
    return y;
  }
};

} // namespace

TEST_CASE("dropout: gradients, through the masks of the forward pass") {
  check_gradients<lm<model>>();
  check_gradients<lm<model>, ct::accumulate<2>>();
}

TEST_CASE("dropout: evaluation and prediction do without") {
  using with = ct::trainer<lm<model>, ct::precision::fp64, ct::optimizer::sgd>;
  using without = ct::trainer<lm<plain_model>, ct::precision::fp64, ct::optimizer::sgd>;
  with a({}, {.seed = 3, .dropout = 0.5});
  without b({}, {.seed = 3});
  auto const w = random_batch::draw<with>(1);
  CHECK(a.predict(w.inputs).logits == b.predict(w.inputs).logits);
  CHECK(a.evaluate(w.inputs, w.labels).loss == b.evaluate(w.inputs, w.labels).loss);
  CHECK(a.step(a.batch(w.inputs, w.labels)).loss != b.step(b.batch(w.inputs, w.labels)).loss);
}

TEST_CASE("dropout: what else a model computes changes no mask") {
  ct::trainer<lm<model>, ct::precision::fp64, ct::optimizer::sgd> a({}, {.seed = 3, .dropout = 0.5});
  ct::trainer<lm<model_with_more>, ct::precision::fp64, ct::optimizer::sgd> b({}, {.seed = 3, .dropout = 0.5});
  auto const w = random_batch::draw<decltype(a)>(1);
  for (int i = 0; i < 3; ++i)
    CHECK(a.step(a.batch(w.inputs, w.labels)).loss == b.step(b.batch(w.inputs, w.labels)).loss);
}

TEST_CASE_TEMPLATE("dropout: zeroes its share and scales the rest", real, float, double) {
  array<real> x(shape(50, 33, 7)); // elements of a sample are no multiple of four
  for (std::size_t i = 0; i < x.values().size(); ++i) x[i] = static_cast<real>(i + 1);
  for (double rate : {0.1, 0.25, 0.9}) {
    auto const y = place{.rate = rate}.dropped(x);
    double zeros = 0;
    for (std::size_t i = 0; i < y.values().size(); ++i) {
      if (y[i] == 0) ++zeros;
      else CHECK(y[i] == doctest::Approx(static_cast<double>(x[i]) / (1 - rate)).epsilon(1e-6));
    }
    auto const n = static_cast<double>(y.values().size());
    CHECK(std::abs(zeros / n - rate) < 4 * std::sqrt(rate * (1 - rate) / n));
  }
  CHECK(same_bits(place{.rate = 0}.dropped(x).values(), x.values()));
}

TEST_CASE("dropout: four consecutive elements of a sample share a draw") {
  ct::random_stream const stream{.seed = 1, .step = 5, .random_key = 3, .iteration = 2};
  for (std::int64_t const elements : {1, 3, 4, 63, 64, 65, 131}) {
    array<float> const x(shape(3, elements), std::vector<float>(static_cast<std::size_t>(3 * elements), 1.0f));
    auto const y = place{.step = 5, .node = 3, .iteration = 2, .first_sample = 6}.dropped(x).values();
    for (std::int64_t i = 0; i < 3 * elements; ++i) {
      auto const sample = i / elements, element = i % elements;
      bool const is_dropped = ct::uniform(stream.draw(6 + sample, element / 4).word[element % 4]) < 0.25f;
      CHECK((y[static_cast<std::size_t>(i)] == 0) == is_dropped);
    }
  }
}

TEST_CASE("dropout: the mask depends on the place alone") {
  array<float> const x(shape(4, 90), std::vector<float>(360, 1.0f));
  auto const y = place{}.dropped(x).values();
  CHECK(place{}.dropped(x).values() == y);
  CHECK(place{.seed = 2}.dropped(x).values() != y);
  CHECK(place{.step = 1}.dropped(x).values() != y);
  CHECK(place{.node = 2}.dropped(x).values() != y);
  CHECK(place{.iteration = 1}.dropped(x).values() != y);
  // Two micro-batches of two samples draw what one of four does; samples differ.
  array<float> const half(shape(2, 90), std::vector<float>(180, 1.0f));
  auto first = place{}.dropped(half).values(), second = place{.first_sample = 2}.dropped(half).values();
  CHECK(first != second);
  first.insert(first.end(), second.begin(), second.end());
  CHECK(first == y);
  // The same elements in double.
  array<double> const wide(shape(4, 90), std::vector<double>(360, 1.0));
  auto const z = place{}.dropped(wide).values();
  CHECK(std::equal(y.begin(), y.end(), z.begin(), [](float a, double b) { return (a == 0) == (b == 0); }));
}

TEST_CASE("dropout: over its own input, and bit-identical on any number of threads") {
  auto const x = array<float>::random(shape(9, 401, 5), 1);
  check_same_on_all_threads([&] { return place{}.dropped(x).values(); });
  for (double rate : {0.0, 0.25}) {
    ct::step_parameters parameters;
    parameters.seed = 1;
    ct::call c{no_attributes, parameters};
    c.random_key = 1;
    auto over = x;
    call_kernel<ct::op::dropout>(c, over.in(), array<double>(shape{}, {rate}).in(), over.out());
    CHECK(same_bits(over.values(), place{.rate = rate}.dropped(x).values()));
  }
}
