#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace ct = constrain;
using namespace constrain::test;

// Losses of other types and shapes than the library's own.
namespace own {

enum class loss_type { f32, of_prediction };

struct squared_error_gradient {
  static constexpr char const* name = "own_squared_error_gradient";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[1].type, in[1].shape);
  }
};

/// The mean squared error as PyTorch would return it in autocast, f32, or in the type of the prediction; a scalar, or
/// with `rank` dimensions of extent 1.
struct squared_error {
  struct options {
    loss_type type = loss_type::f32;
    int rank = 0;
  };
  static constexpr char const* name = "own_squared_error";

  static constexpr ct::inferred infer(ct::operand_types const& in, options const& o) {
    ct::shape s;
    for (; s.rank < o.rank; ++s.rank) s.extent[s.rank] = 1;
    return ct::inferred::one(o.type == loss_type::f32 ? ct::accumulator_of(in[0].type) : in[0].type, s);
  }
  static constexpr void gradient(ct::backward& b) {
    b.emit<squared_error_gradient>({b.gradient(), b.input(0), b.input(1), b.input(2)}, {0});
  }
};

template <loss_type type, int rank> struct objective {
  static constexpr ct::port_spec labels[] = {{.name = "targets", .type = ct::port_type::real, .each = ct::per::logit}};
  constexpr ct::value operator()(ct::value prediction, ct::value targets) const {
    return ct::emit<squared_error>({prediction, targets, ct::inverse_label_count(targets)},
                                   {.type = type, .rank = rank});
  }
};

struct linear_model {
  static constexpr ct::port_spec inputs[] = {
      {.name = "x", .type = ct::port_type::real, .each = ct::per::sequence, .features = 3}};
  constexpr ct::value operator()(ct::value x) const { return ct::linear("out", x, 1); }
};

} // namespace own

template <> struct constrain::kernel<own::squared_error, constrain::cpu> {
  template <class stored, class label, class loss_type>
  static void run(call const&, tensor<stored const> prediction, tensor<label const> target,
                  tensor<double const> inverse_count, tensor<loss_type> loss) {
    double sum = 0;
    for (std::int64_t i = 0; i < prediction.count; ++i)
      sum += std::pow(static_cast<double>(prediction[i]) - static_cast<double>(target[i]), 2);
    loss[0] = static_cast<loss_type>(static_cast<arithmetic<loss_type>>(sum * inverse_count[0]));
  }
};
template <> struct constrain::kernel<own::squared_error_gradient, constrain::cpu> {
  template <class loss_type, class stored, class label>
  static void run(call const&, tensor<loss_type const> dloss, tensor<stored const> prediction,
                  tensor<label const> target, tensor<double const> inverse_count, tensor<stored> dprediction) {
    double const scale = 2 * static_cast<double>(dloss[0]) * inverse_count[0];
    for (std::int64_t i = 0; i < prediction.count; ++i)
      dprediction[i] = static_cast<stored>(static_cast<arithmetic<stored>>(
          scale * (static_cast<double>(prediction[i]) - static_cast<double>(target[i]))));
  }
};

namespace {

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 32, .vocabulary = 64, .context = 16}, ct::causal_lm,
                      ct::micro_batch{.sequences = 4}>;
template <class... policies> using fp16 = ct::trainer<task, ct::precision::fp16, policies...>;

struct data {
  std::vector<std::int32_t> inputs, labels;

  explicit data(int number, std::int64_t count = 64) {
    for (std::int64_t i = 0; i < count; ++i) {
      inputs.push_back(static_cast<std::int32_t>((i * 7 + number * 3) % 64));
      labels.push_back(static_cast<std::int32_t>((i * 7 + 7 + number * 3) % 64));
    }
  }
};
template <class trainer> ct::step_result step(trainer& t, int number = 0) {
  data const d(number, trainer::batch_tokens);
  return t.step(t.batch(d.inputs, d.labels));
}

template <class trainer> std::string bytes_of(trainer const& t) {
  temporary_directory const directory;
  t.save(directory / "run");
  return read_file(directory / "run/model.safetensors");
}

/// The gradients of all parameters.
template <class trainer> std::vector<double> gradients_of(trainer const& t) {
  std::vector<double> all;
  for (auto const& p : t.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(p.size()));
    t.gradient(p.name).copy_to(std::span(values));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// 18 bytes a parameter for matrices with a compute copy (2 of them the copy), 16 for the others, as in bf16.
static_assert(fp16<>::memory.optimizer_state.count() == 8 * fp16<>::parameter_count);
static_assert(fp16<>::memory.peak == ct::trainer<task, ct::precision::bf16>::memory.peak + ct::bytes(128));
static_assert(fp16<>::memory.weights == ct::trainer<task, ct::precision::bf16>::memory.weights);

} // namespace

TEST_CASE("the scale begins at 65536, doubles after enough good steps and halves after a skipped one") {
  fp16<> t({.learning_rate = 1e-3f}, {.loss_scale = {.interval = 3}});
  CHECK(t.setting("loss_scale") == 65536);
  for (int i = 0; i < 3; ++i) CHECK(!step(t, i).skipped);
  CHECK(t.setting("loss_scale") == 131072);
  t.set("loss_scale", std::ldexp(1.0, 100)); // overflows at once
  auto const before = bytes_of(t);
  auto const skipped = step(t, 3);
  CHECK(skipped.skipped);
  CHECK(!skipped.not_finite.empty());
  CHECK(t.setting("loss_scale") == std::ldexp(1.0, 99));
  CHECK(bytes_of(t) == before);
  t.set("loss_scale", 1024);
  CHECK(!step(t, 4).skipped);
  CHECK(!step(t, 5).skipped);
  CHECK(t.setting("loss_scale") == 1024);
  CHECK(!step(t, 6).skipped);
  CHECK(t.setting("loss_scale") == 2048);
}

TEST_CASE("scaling changes nothing but what would underflow") {
  // The norm and the clipping use the unscaled gradients, whatever the scale.
  fp16<> small({}, {.clip_norm = 0.1, .loss_scale = {.initial = 256}}), large({}, {.clip_norm = 0.1});
  ct::trainer<task> wide({}, {.clip_norm = 0.1});
  auto const a = step(small), b = step(large), c = step(wide);
  CHECK(a.loss == b.loss);
  CHECK(a.gradient_norm == doctest::Approx(c.gradient_norm).epsilon(5e-3));
  CHECK(b.gradient_norm == doctest::Approx(c.gradient_norm).epsilon(5e-3));
  // Gradients of activations below 2^-14 lose bits in fp16, more of them with the smaller scale.
  auto const x = gradients_of(small), y = gradients_of(large);
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    largest = std::max(largest, std::abs(y[i])), apart = std::max(apart, std::abs(x[i] - y[i]));
  CHECK(largest > 0);
  CHECK(apart < 1e-6 * largest);
}

TEST_CASE("two scales that are powers of two give the same weights, bit for bit, where nothing underflows") {
  using regression = ct::task<own::linear_model{}, ct::mean_squared_error, ct::micro_batch{.sequences = 4}>;
  using trainer = ct::trainer<regression, ct::precision::fp16>;
  std::vector<float> const x{1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}, y{1, 2, -1, 2};
  for (double const clip_norm : {0.0, 0.1}) {
    auto const weights_with = [&](double scale) {
      trainer t({.learning_rate = 1e-1f}, {.seed = 3, .clip_norm = clip_norm, .loss_scale = {.initial = scale}});
      for (int i = 0; i < 20; ++i) CHECK(!t.step(t.batch(x, y)).skipped);
      CHECK(t.setting("loss_scale") == scale);
      return bytes_of(t);
    };
    auto const expected = weights_with(256);
    CHECK(weights_with(4096) == expected);
    CHECK(weights_with(1) == expected);
    CHECK(weights_with(300) != expected); // not a power of two: the comparison sees a difference of rounding
  }
}

TEST_CASE("a view of a gradient divides by the scale of the last step, also by one of a step after it was made") {
  fp16<> t({.learning_rate = 0});
  step(t);
  auto const name = t.parameters().front().name;
  auto const view = t.gradient(name);
  auto const read = [](ct::tensor_view const& from) {
    std::vector<double> values(static_cast<std::size_t>(from.size()));
    from.copy_to(std::span(values));
    return values;
  };
  auto const before = read(view);
  t.set("loss_scale", 4096); // of the next step
  CHECK(read(view) == before);
  step(t);
  CHECK(read(view) == read(t.gradient(name)));
  auto const moved = std::move(t);
  CHECK(read(view) == read(moved.gradient(name)));
  auto const after = read(view);
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < before.size(); ++i)
    largest = std::max(largest, std::abs(before[i])), apart = std::max(apart, std::abs(after[i] - before[i]));
  CHECK(largest > 0);
  CHECK(apart < 1e-3 * largest);
}

TEST_CASE("what is written to a view of a gradient is read back") {
  fp16<> t;
  step(t);
  auto const view = t.gradient(t.parameters().front().name);
  std::vector<double> written(static_cast<std::size_t>(view.size())), back(written.size());
  for (std::size_t i = 0; i < written.size(); ++i) written[i] = std::sin(static_cast<double>(i)) / 8;
  view.copy_from(std::span<double const>(written));
  view.copy_to(std::span(back));
  for (std::size_t i = 0; i < written.size(); ++i) CHECK(back[i] == doctest::Approx(written[i]).epsilon(1e-3));
}

TEST_CASE("gradient() returns true gradients, whatever the scale was and is") {
  fp16<> small({}, {.loss_scale = {.initial = 1000}}), large({}, {.loss_scale = {.interval = 1}});
  ct::trainer<task> wide;
  step(small), step(large), step(wide);
  CHECK(large.setting("loss_scale") == 131072); // of the next step
  large.set("loss_scale", 1);
  auto const a = gradients_of(small), b = gradients_of(large), c = gradients_of(wide);
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    largest = std::max(largest, std::abs(c[i]));
    apart = std::max({apart, std::abs(a[i] - c[i]), std::abs(b[i] - c[i])});
  }
  CHECK(largest > 0);
  CHECK(apart < 5e-3 * largest);
}

TEST_CASE("a refused batch does not change what gradient() returns") {
  fp16<> t({}, {.loss_scale = {.interval = 1}});
  step(t);
  auto const before = gradients_of(t);
  CHECK(t.setting("loss_scale") == 131072); // of the next step
  CHECK_THROWS_AS(t.step(ct::batch{}), ct::error);
  CHECK(gradients_of(t) == before);
}

TEST_CASE("the scale is saved; a resumed run goes on to the same bytes") {
  temporary_directory const directory;
  fp16<> whole({.learning_rate = 1e-3f}, {.loss_scale = {.interval = 2}});
  step(whole, 0);
  whole.save(directory / "run");
  fp16<> resumed({.learning_rate = 1e-3f}, {.loss_scale = {.interval = 2}});
  resumed.load(directory / "run");
  for (int i = 1; i < 6; ++i) step(whole, i), step(resumed, i);
  CHECK(resumed.setting("loss_scale") == whole.setting("loss_scale"));
  CHECK(bytes_of(resumed) == bytes_of(whole));
}

TEST_CASE("fusion of head and loss, checkpointing and accumulation work with a loss scale") {
  fp16<> plain;
  fp16<ct::checkpoint::every<1>> again;
  fp16<ct::fusion::all> fused;
  fp16<ct::accumulate<2>> twice;
  ct::trainer<task> wide;
  for (int i = 0; i < 5; ++i) {
    auto const loss = step(wide, i).loss;
    CHECK(step(plain, i).loss == doctest::Approx(loss).epsilon(2e-3));
    CHECK(step(fused, i).loss == doctest::Approx(loss).epsilon(2e-3));
    step(again, i), step(twice, i);
  }
  CHECK(bytes_of(plain) == bytes_of(again));
  fused.set("loss_scale", std::ldexp(1.0, 100));
  auto const before = bytes_of(fused);
  CHECK(step(fused, 5).skipped);
  CHECK(bytes_of(fused) == before);
  // A sum over micro-batches that is not finite stays so.
  twice.set("loss_scale", std::ldexp(1.0, 100));
  CHECK(step(twice, 5).skipped);
}

TEST_CASE("training in fp16 follows fp32") {
  fp16<> narrow({.learning_rate = 3e-3f});
  ct::trainer<task> wide({.learning_rate = 3e-3f});
  for (int i = 0; i < 60; ++i) step(narrow, i % 4), step(wide, i % 4);
  data const d(1);
  auto const a = narrow.evaluate(d.inputs, d.labels).loss, b = wide.evaluate(d.inputs, d.labels).loss;
  CHECK(a == doctest::Approx(b).epsilon(0.01));
}

TEST_CASE("wrong numbers of the loss scale are refused") {
  CHECK(sentence([] { fp16<>({}, {.loss_scale = {.initial = 0}}); }) ==
        "run_options: .loss_scale.initial is 0; give a number from 2^-24 to 2^127");
  CHECK(sentence([] { fp16<>({}, {.loss_scale = {.interval = 0}}); }) ==
        "run_options: .loss_scale.interval is 0; give an integer of at least 1");
  for (double const bad : {std::ldexp(1.0, 128), 1e300, std::numeric_limits<double>::infinity(), std::nan("")})
    CHECK(sentence([&] { fp16<>({}, {.loss_scale = {.initial = bad}}); }) == "run_options: .loss_scale.initial is " +
                                                                                 ct::detail::number_text(bad) +
                                                                                 "; give a number from 2^-24 to 2^127");
  CHECK(sentence([] { fp16<>({}, {.loss_scale = {.initial = std::ldexp(1.0, 127)}}); }).empty());
  for (double const bad : {1.0, 0.5, 0.0, -2.0, std::numeric_limits<double>::infinity(), std::nan("")})
    CHECK(sentence([&] { fp16<>({}, {.loss_scale = {.growth = bad}}); }) ==
          "run_options: .loss_scale.growth is " + ct::detail::number_text(bad) + "; give a finite number above 1");
  for (double const bad : {1.0, 2.0, 0.0, -0.5, std::nan("")})
    CHECK(sentence([&] { fp16<>({}, {.loss_scale = {.backoff = bad}}); }) == "run_options: .loss_scale.backoff is " +
                                                                                 ct::detail::number_text(bad) +
                                                                                 "; give a number above 0 and below 1");
  fp16<> t;
  CHECK(sentence([&] { t.set("loss_scale", 0); }) ==
        "set: the setting loss_scale is 0; give a number from 2^-24 to 2^127");
  CHECK(sentence([&] { t.set("loss_scale", -8); }) ==
        "set: the setting loss_scale is -8; give a number from 2^-24 to 2^127");
  CHECK(!sentence([&] { t.set("loss_scale", std::ldexp(1.0, -25)); }).empty());
  CHECK(!sentence([&] { t.set("loss_scale", std::ldexp(1.0, 128)); }).empty());
  CHECK(sentence([&] { t.set("loss_scale_steps", -1); }) ==
        "set: the setting loss_scale_steps is -1; give a finite number of at least 0");
  CHECK(t.setting("loss_scale") == 65536);
  CHECK(t.setting("loss_scale_steps") == 0);
  t.set("loss_scale", std::ldexp(1.0, -24));
  CHECK(!step(t).skipped);
}

TEST_CASE("after any number of skipped steps a good one leaves finite weights") {
  fp16<> t;
  auto const bias = t.parameters().back();
  std::vector<float> values(static_cast<std::size_t>(bias.size()));
  bias.copy_to(std::span(values));
  auto wrong = values;
  wrong[0] = std::numeric_limits<float>::quiet_NaN();
  bias.copy_from(std::span<float const>(wrong));
  for (int i = 0; i < 160; ++i) CHECK(step(t).skipped);
  CHECK(t.setting("loss_scale") == std::ldexp(1.0, -24));
  bias.copy_from(std::span<float const>(values));
  step(t);
  bias.copy_to(std::span(values));
  for (float const x : values) CHECK(std::isfinite(x));
}

TEST_CASE("a norm that overflows although every parameter's gradient is finite names no parameter") {
  using regression = ct::task<own::linear_model{}, ct::mean_squared_error, ct::micro_batch{.sequences = 4}>;
  ct::trainer<regression, ct::precision::fp64> t({.learning_rate = 1e-1f}, {.seed = 3});
  // The gradients of weight and bias are 1e154: the square of each is below the largest double, their sum above it.
  std::vector<double> const x{1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0}, y(4, -5e153);
  auto const skipped = t.step(t.batch(x, y));
  CHECK(skipped.skipped);
  CHECK(skipped.not_finite.empty());
  for (double const g : gradients_of(t)) CHECK(std::isfinite(g));
  CHECK(!t.step(t.batch(x, std::vector<double>(4, 1.0))).skipped);
}

namespace {

/// Trains 20 steps; returns the last loss and the number of skipped steps.
template <class objective, class precision = ct::precision::fp16>
std::pair<double, std::int64_t> train_on_reals(double loss_scale = 256) {
  using regression = ct::task<own::linear_model{}, objective, ct::micro_batch{.sequences = 4}>;
  std::vector<float> const x{1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}, y{1, 2, -1, 2};
  ct::trainer<regression, precision> t({.learning_rate = 1e-1f}, {.seed = 3, .loss_scale = {.initial = loss_scale}});
  double loss = 0;
  for (int i = 0; i < 20; ++i) loss = t.step(t.batch(x, y)).loss;
  return {loss, t.state().skipped};
}

} // namespace

TEST_CASE("a loss of another type or shape is scaled as one in fp64") {
  using own::loss_type, own::objective;
  auto const [expected, skipped] = train_on_reals<ct::mean_squared_error>();
  CHECK(skipped == 0);
  for (auto const& [loss, skipped_too] :
       {train_on_reals<objective<loss_type::f32, 0>>(), train_on_reals<objective<loss_type::f32, 1>>(),
        train_on_reals<objective<loss_type::f32, 3>>(), train_on_reals<objective<loss_type::of_prediction, 0>>()}) {
    CHECK(loss == doctest::Approx(expected).epsilon(1e-2));
    CHECK(skipped_too == 0);
  }
  CHECK(train_on_reals<objective<loss_type::f32, 1>, ct::precision::fp32>().first ==
        doctest::Approx(expected).epsilon(1e-2));
  // A loss in fp16 has no gradient of 65536: the step is skipped and the scale halved.
  CHECK(train_on_reals<objective<loss_type::of_prediction, 0>>(65536).second > 0);
}
