#include "check_gradients.hpp"
#include "sentence.hpp"

#include <cmath>

// With fusion::all, rows whose label is ignored stay out of the head and the loss. Nothing else changes.

namespace ct = constrain;
using namespace constrain::test;

namespace {

// 36 rows a micro-batch: two chunks of 16, and 4 rows.
using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 8, .vocabulary = 23, .context = 12}, ct::causal_lm,
                      ct::micro_batch{.sequences = 3}>;
constexpr std::size_t rows = 36;

/// Whether the label at this index of the batch is ignored.
using pattern = bool (*)(std::size_t);
constexpr pattern patterns[] = {
    [](std::size_t) { return false; },
    [](std::size_t i) { return i % 2 == 0; },
    [](std::size_t i) { return i % rows >= 16; },                         // one full chunk is left
    [](std::size_t i) { return i % rows < 3; },                           // 33 rows: one in the last, short chunk
    [](std::size_t i) { return i != 21; },                                // all but one of all micro-batches
    [](std::size_t i) { return i / rows % 3 == 0 && i % rows != 35; },    // 1, then all rows
    [](std::size_t i) { return i % rows >= 20 * (1 + i / rows) % rows; }, // 20, 4, 24 rows
    [](std::size_t i) { return i / rows == 1 || i % 3 == 0; },            // none in the second micro-batch
};

random_batch batch_of(std::size_t micro_batches, pattern ignores) {
  random_batch b;
  std::mt19937 random(11);
  for (std::size_t i = 0; i < micro_batches * rows; ++i) {
    b.inputs.push_back(static_cast<std::int32_t>(random() % 23));
    auto const label = static_cast<std::int32_t>(random() % 23);
    b.labels.push_back(ignores(i) ? ct::ignored_label : label);
  }
  return b;
}

template <class trainer> std::vector<double> gradients_of(trainer const& t) {
  std::vector<double> all;
  for (auto const& p : t.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(p.size()));
    t.gradient(p.name).copy_to(std::span<double>(values));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

double distance(std::vector<double> const& a, std::vector<double> const& b) {
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) apart += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
  return std::sqrt(apart / size);
}

template <class... list> void computes_the_same() {
  using fused = ct::trainer<task, ct::precision::fp64, ct::optimizer::sgd, ct::fusion::all, list...>;
  using separate = ct::trainer<task, ct::precision::fp64, ct::optimizer::sgd, ct::fusion::none, list...>;
  CAPTURE(fused::policy_set::name());
  for (auto const& ignores : patterns) {
    auto const number = &ignores - patterns;
    CAPTURE(number);
    auto const b = batch_of(static_cast<std::size_t>(fused::micro_batches), ignores);
    fused a, checked({}, {.checked = true});
    separate c;
    auto const x = a.step(a.batch(b.inputs, b.labels)), y = c.step(c.batch(b.inputs, b.labels));
    CHECK(x.tokens == y.tokens);
    CHECK(std::abs(x.loss - y.loss) <= 1e-13 * y.loss);
    CHECK(distance(gradients_of(a), gradients_of(c)) <= 1e-13);
    CHECK(checked.step(checked.batch(b.inputs, b.labels)).loss == x.loss);
    CHECK(gradients_of(checked) == gradients_of(a));
    auto const e = a.evaluate(b.inputs, b.labels), f = c.evaluate(b.inputs, b.labels);
    CHECK(e.tokens == f.tokens);
    CHECK(std::abs(e.loss - f.loss) <= 1e-13 * f.loss);
    CHECK(e.accuracy == f.accuracy);
  }
}

} // namespace

TEST_CASE("losses and gradients are those of all rows together") {
  computes_the_same<>();
  computes_the_same<ct::accumulate<3>>();
  computes_the_same<ct::accumulate<2>, ct::checkpoint::every<1>>();
}

TEST_CASE("a batch without valid labels is refused as before") {
  auto const b = batch_of(1, [](std::size_t) { return true; });
  ct::trainer<task, ct::fusion::all> fused;
  ct::trainer<task, ct::fusion::none> separate;
  auto const of = [&](auto& t) { return sentence([&] { t.batch(b.inputs, b.labels); }); };
  CHECK(of(fused) == of(separate));
  CHECK(of(fused).starts_with("batch: every label is ignored"));
  auto const evaluated = [&](auto& t) { return sentence([&] { t.evaluate(b.inputs, b.labels); }); };
  CHECK(evaluated(fused) == evaluated(separate));
}

namespace {

std::vector<std::int64_t> called_with; // rows of each call to the op below

/// loss (+)= the sum over rows with a valid label of x[row, label], times the inverse of the number of valid labels.
struct sum_at_labels_gradient {
  static constexpr char const* name = "sum_at_labels_gradient";
  static constexpr char const* layouts = "-, ..., ..., - -> ...";
  static constexpr unsigned label_inputs = 0b100;
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[1].type, in[1].shape);
  }
};
struct sum_at_labels {
  static constexpr char const* name = "sum_at_labels";
  static constexpr char const* layouts = "..., ..., - -> -";
  static constexpr unsigned accumulating = 0b1, label_inputs = 0b10;
  static constexpr ct::inferred infer(ct::operand_types const&) { return ct::inferred::one(ct::dtype::f64, {}); }
  static constexpr void gradient(ct::backward& b) {
    b.emit<sum_at_labels_gradient>({b.gradient(), b.input(0), b.input(1), b.input(2)}, {0});
  }
};

struct own_objective {
  constexpr ct::value operator()(ct::value logits, ct::value labels) const {
    return ct::emit<sum_at_labels>({logits, labels, ct::inverse_label_count(labels)}, {}, 0);
  }
};
struct embedded {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 23, .width = 6}), 23);
  }
};
using own_task = ct::task<embedded{}, own_objective, ct::micro_batch{.sequences = 3, .tokens = 12}>;

} // namespace

template <> struct ct::kernel<sum_at_labels, ct::cpu> {
  static void run(ct::call const& c, ct::tensor<double const> x, ct::tensor<std::int32_t const> labels,
                  ct::tensor<double const> inverse, ct::tensor<double> loss) {
    called_with.push_back(labels.count);
    double sum = c.add_to(0) ? loss[0] : 0;
    for (std::int64_t row = 0; row < labels.count; ++row)
      if (labels[row] != ct::ignored_label) sum += x[row * x.features() + labels[row]] * inverse[0];
    loss[0] = sum;
  }
};
template <> struct ct::kernel<sum_at_labels_gradient, ct::cpu> {
  static void run(ct::call const&, ct::tensor<double const> dloss, ct::tensor<double const>,
                  ct::tensor<std::int32_t const> labels, ct::tensor<double const> inverse, ct::tensor<double> dx) {
    for (std::int64_t i = 0; i < dx.count; ++i)
      dx[i] = labels[i / dx.features()] == i % dx.features() ? dloss[0] * inverse[0] : 0;
  }
};

TEST_CASE("the loop runs as often as the rows with a valid label need, also with a user's op") {
  using trainer = ct::trainer<own_task, ct::precision::fp64, ct::optimizer::sgd, ct::fusion::all, ct::accumulate<3>>;
  using calls = std::vector<std::int64_t>;
  auto const run = [](pattern ignores) {
    trainer t;
    auto const b = batch_of(3, ignores);
    called_with.clear();
    t.step(t.batch(b.inputs, b.labels));
    return called_with;
  };
  CHECK(run(patterns[0]) == calls{16, 16, 4, 16, 16, 4, 16, 16, 4});
  CHECK(run(patterns[1]) == calls{16, 16, 16, 16, 16, 16}); // 18 rows each
  CHECK(run(patterns[2]) == calls{16, 16, 16});
  CHECK(run(patterns[3]) == calls{16, 16, 4, 16, 16, 4, 16, 16, 4});
  CHECK(run(patterns[4]) == calls{16, 16, 16});         // an iteration always runs
  CHECK(run(patterns[6]) == calls{16, 16, 16, 16, 16}); // 20, 4 and 24 rows
}

TEST_CASE("the gradient of a row that is left out is exactly zero") {
  ct::trainer<own_task, ct::precision::fp64, ct::optimizer::sgd, ct::fusion::all> t;
  // Token 9 appears only where the label is ignored.
  std::vector<std::int32_t> inputs(rows), labels(rows, ct::ignored_label);
  for (std::size_t i = 0; i < rows; ++i) {
    inputs[i] = i % 2 == 0 ? 9 : 3;
    if (i % 2 == 1) labels[i] = static_cast<std::int32_t>(i % 23);
  }
  t.step(t.batch(inputs, labels));
  std::vector<double> gradient(23 * 6);
  t.gradient("token.weight").copy_to(std::span<double>(gradient));
  for (std::size_t k = 0; k < 6; ++k) {
    CHECK(gradient[9 * 6 + k] == 0);
    CHECK(gradient[3 * 6 + k] != 0);
  }
}
