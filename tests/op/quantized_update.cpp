#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

#include <array>
#include <cmath>
#include <cstring>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using ct::optimizer::adamw;
using ct::optimizer::momentum;
using ct::optimizer::quantized;
template <class optimizer> using op = ct::op::quantized_update<optimizer>;

static_assert(ct::info_of<op<adamw>>.gradient == nullptr);
static_assert(ct::op::state_is_signed<adamw>(0) && !ct::op::state_is_signed<adamw>(1));
static_assert(ct::op::state_is_signed<momentum>(0));
constexpr auto operands = types({f32(shape(19, 27)), f64(shape(2)), {ct::dtype::u8, shape(20)}});
constexpr auto results = ct::info_of<op<adamw>>.infer(operands, {}).outputs;
static_assert(results.size() == 5 && results[0] == f32(shape(19, 27)) && results[4] == f32(shape(3)));
static_assert(results[1] == ct::operand_type{ct::dtype::u8, shape(19, 27)} && results[2] == results[1]);

// The most fields that a state has. Their names and signs are the default.
struct four_averages {
  template <class real> struct state { real a, b, c, d; };
  struct hyper {
    float learning_rate = 0.1f;
  };
  template <class real>
  static real update(real weight, real gradient, state<real>& s, hyper const& h, ct::optimizer_step) {
    s.a += (gradient - s.a) / 2, s.b += (gradient - s.b) / 4, s.c += (gradient - s.c) / 8, s.d += (gradient - s.d) / 16;
    return weight - real(h.learning_rate) * (s.a + s.b + s.c + s.d);
  }
};
constexpr auto nine = ct::info_of<op<four_averages>>.infer(operands, {}).outputs;
static_assert(nine.size() == 9 && nine[4].type == ct::dtype::u8 && nine[8] == f32(shape(3)));

/// A stack of tensors and their optimizer's state in 8 bits, updated by the kernel.
template <class optimizer, class real> struct trained {
  static constexpr int fields = ct::op::state_fields<optimizer>();
  shape tensor, blocks;
  std::int64_t instances;
  std::vector<real> weight;
  std::array<std::vector<std::uint8_t>, fields> codes;
  std::array<std::vector<float>, fields> scales;
  typename optimizer::hyper hyper{};
  std::int64_t updates = 0;

  explicit trained(std::vector<double> const& start, std::int64_t stack = 1)
      : tensor(static_cast<std::int64_t>(start.size()) / stack), blocks(op<optimizer>::blocks(tensor.elements())),
        instances(stack) {
    for (double x : start) weight.push_back(static_cast<real>(x));
    for (int i = 0; i < fields; ++i) {
      auto const zero = ct::dynamic_map::zero(ct::op::state_is_signed<optimizer>(i));
      codes[i].assign(start.size(), static_cast<std::uint8_t>(zero));
      scales[i].assign(static_cast<std::size_t>(stack * blocks.elements()), 0);
    }
  }
  template <class T> static ct::tensor<T> view(std::vector<T>& v, shape const& s) {
    return {v.data(), &s, static_cast<std::int64_t>(v.size())};
  }
  void step(std::vector<real> const& gradient, double scale = 1) {
    ct::op::step_hyperparameters<quantized<optimizer>, real> const prepared(hyper, {++updates});
    array<std::uint8_t> numbers(shape(static_cast<std::int64_t>(sizeof prepared)));
    std::memcpy(numbers.out().data, &prepared, sizeof prepared);
    array<double> const clip(shape(2), {1.0, scale});
    auto const options = ct::pack(ct::op::quantized_update_options{.decays = true, .elements = tensor.elements()});
    ct::tensor<real const> const in{gradient.data(), &tensor, static_cast<std::int64_t>(gradient.size())};
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      call_kernel<op<optimizer>>(ct::call{options, no_parameters}, in, clip.in(), numbers.in(), view(weight, tensor),
                                 view(codes[i], tensor)..., view(scales[i], blocks)...);
    }
    (std::make_index_sequence<fields>{});
  }
};

/// Row `step` of a tensor of the fixture.
std::vector<double> row(fixture const& f, std::string const& name, std::ptrdiff_t step) {
  auto const all = f.reals(name);
  auto const width = static_cast<std::ptrdiff_t>(f.shape(name)[1]);
  return {all.begin() + width * step, all.begin() + width * (step + 1)};
}

/// Each step begins with the weights, codes and scales of bitsandbytes.
template <class optimizer, class real> void check_oracle(std::string const& name) {
  CAPTURE(name);
  fixture const f("quantized.safetensors");
  trained<optimizer, real> t(f.reals("parameter"));
  t.hyper = {.learning_rate = 0.01f, .weight_decay = 0.01f};
  int differ = 0, codes = 0;
  for (std::ptrdiff_t step = 0; step < 5; ++step) {
    CAPTURE(step);
    auto const gradient = row(f, "gradients", step);
    t.step({gradient.begin(), gradient.end()});
    auto const weight = row(f, name + ".weight", step);
    for (std::size_t k = 0; k < weight.size(); ++k) {
      CHECK(static_cast<double>(t.weight[k]) == doctest::Approx(weight[k]).epsilon(2e-6));
      t.weight[k] = static_cast<real>(weight[k]);
    }
    for (std::size_t i = 0; i < t.codes.size(); ++i) {
      auto const expected = row(f, name + ".codes" + std::to_string(i), step);
      auto const scale = row(f, name + ".scale" + std::to_string(i), step);
      for (std::size_t b = 0; b < scale.size(); ++b) {
        CHECK(static_cast<double>(t.scales[i][b]) == doctest::Approx(scale[b]).epsilon(1e-6));
        t.scales[i][b] = static_cast<float>(scale[b]);
      }
      for (std::size_t k = 0; k < expected.size(); ++k) {
        auto const right = static_cast<int>(expected[k]);
        CHECK(std::abs(t.codes[i][k] - right) <= 1);
        differ += t.codes[i][k] != right, ++codes;
        t.codes[i][k] = static_cast<std::uint8_t>(right);
      }
    }
  }
  // Only numbers that are nearly midpoints may have another code.
  MESSAGE(name << ": " << differ << " of " << codes << " codes differ by one");
  CHECK(differ * 1000 <= codes);
}

} // namespace

TEST_CASE("dynamic_map: bit for bit the numbers of bitsandbytes, and the nearest code") {
  fixture const f("quantized.safetensors");
  for (bool const is_signed : {true, false}) {
    auto const expected = f.reals(is_signed ? "signed_map" : "unsigned_map");
    auto const& map = ct::dynamic_map::of(is_signed);
    auto const search = map.nearest();
    auto const* const values = map.values();
    CHECK(values[ct::dynamic_map::zero(is_signed)] == 0);
    for (std::size_t c = 0; c < 256; ++c) {
      CHECK(std::memcmp(&values[c], std::array{static_cast<float>(expected[c])}.data(), sizeof(float)) == 0);
      CHECK(search(values[c]) == static_cast<int>(c));
    }
    // The search against its definition: on both sides of each boundary between two codes, and in between.
    auto const distance = [&](int code, float x) { return std::abs(static_cast<double>(x) - values[code]); };
    for (int c = 0; c < 255; ++c) {
      float const middle = (values[c] + values[c + 1]) / 2;
      for (float const x : {middle, std::nextafter(middle, -2.0f), std::nextafter(middle, 2.0f),
                            values[c] + (middle - values[c]) / 3, middle + (values[c + 1] - middle) / 3}) {
        double const nearest = std::min(distance(c, x), distance(c + 1, x));
        CHECK(distance(search(x), x) <= (1 + 1e-4) * nearest + 2.5e-7 * std::abs(static_cast<double>(x)));
      }
    }
    CHECK(search(2.0f) == 255);
    CHECK(search(INFINITY) == 255);
    CHECK(search(-INFINITY) == 0);
    CHECK(search(NAN) == ct::dynamic_map::zero(is_signed));
    CHECK(search(std::numeric_limits<float>::denorm_min()) == ct::dynamic_map::zero(is_signed));
    CHECK(search(-1.0f) == 0);
  }
}

TEST_CASE_TEMPLATE("quantized_update: as bitsandbytes, each step from its codes", real, float, double) {
  check_oracle<adamw, real>("adamw");
  check_oracle<momentum, real>("momentum");
}

TEST_CASE_TEMPLATE("quantized_update: a scale of 0 changes nothing", real, float, double) {
  auto const start = array<double>::random(shape(600), 1).values();
  auto const gradient = array<real>::random(shape(600), 2).values();
  trained<adamw, real> t(start);
  t.step(gradient);
  auto const before = t;
  t.step(std::vector<real>(600, std::numeric_limits<real>::quiet_NaN()), 0);
  CHECK(t.weight == before.weight);
  CHECK(t.codes == before.codes);
  CHECK(t.scales == before.scales);
}

TEST_CASE("quantized_update: clipping scales the gradient") {
  auto const start = array<double>::random(shape(300), 1).values();
  auto gradient = array<float>::random(shape(300), 2).values();
  trained<momentum, float> half(start), scaled(start);
  half.step(gradient, 0.5);
  for (auto& g : gradient) g *= 0.5f;
  scaled.step(gradient);
  CHECK(half.weight == scaled.weight);
  CHECK(half.codes == scaled.codes);
}

TEST_CASE("quantized_update: no block spans two tensors of a stack") {
  auto const start = array<double>::random(shape(3 * 700), 1).values();
  trained<adamw, float> stack(start, 3);
  std::vector<trained<adamw, float>> alone;
  for (std::ptrdiff_t i = 0; i < 3; ++i)
    alone.emplace_back(std::vector<double>(start.begin() + i * 700, start.begin() + (i + 1) * 700));
  for (unsigned step = 0; step < 3; ++step) {
    auto const gradient = array<float>::random(shape(3 * 700), 2 + step).values();
    stack.step(gradient);
    for (std::size_t i = 0; i < 3; ++i) {
      auto const from = static_cast<std::ptrdiff_t>(i) * 700;
      alone[i].step({gradient.begin() + from, gradient.begin() + from + 700});
      CHECK(std::equal(alone[i].weight.begin(), alone[i].weight.end(), stack.weight.begin() + from));
      for (std::size_t field = 0; field < 2; ++field) {
        CHECK(
            std::equal(alone[i].codes[field].begin(), alone[i].codes[field].end(), stack.codes[field].begin() + from));
        CHECK(std::equal(alone[i].scales[field].begin(), alone[i].scales[field].end(),
                         stack.scales[field].begin() + static_cast<std::ptrdiff_t>(i) * 3));
      }
    }
  }
}

TEST_CASE("quantized_update: a state beyond the largest float poisons no other element of its block") {
  std::vector<double> const start(256, 1);
  std::vector<float> gradient(256, 1);
  gradient[7] = 1e25f; // its square is infinite
  trained<adamw, float> t(start);
  for (int i = 0; i < 3; ++i) t.step(gradient);
  for (float x : t.weight) CHECK(std::isfinite(x));
  CHECK(t.scales[1][0] == std::numeric_limits<float>::max());
}

TEST_CASE("quantized_update: a state of four fields") {
  auto const start = array<double>::random(shape(700), 1).values();
  auto const gradient = array<float>::random(shape(700), 2).values();
  trained<four_averages, float> t(start);
  t.step(gradient);
  for (std::size_t field = 0; field < 4; ++field) {
    double const share = std::pow(0.5, static_cast<double>(field + 1));
    for (std::size_t k = 0; k < 700; ++k) {
      auto const scale = static_cast<double>(t.scales[field][k / 256]);
      double const now = scale * static_cast<double>(ct::dynamic_map::of(true).values()[t.codes[field][k]]);
      CHECK(std::abs(now - share * static_cast<double>(gradient[k])) <= 0.00704 * scale); // half an interval
    }
  }
}

TEST_CASE("quantized_update: bit-identical on any number of threads") {
  auto const start = array<double>::random(shape(50000), 1).values();
  auto const gradient = array<float>::random(shape(50000), 2).values();
  check_same_on_all_threads([&] {
    trained<adamw, float> t(start);
    for (int i = 0; i < 3; ++i) t.step(gradient);
    auto all = t.weight;
    for (std::size_t i = 0; i < 2; ++i) {
      all.insert(all.end(), t.codes[i].begin(), t.codes[i].end());
      all.insert(all.end(), t.scales[i].begin(), t.scales[i].end());
    }
    return all;
  });
}
