#include "policy/small_gpt.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

// A user's policy whose pass works on every gradient between the backward pass and the update: Gaussian noise
// (Neelakantan et al. 2015, "Adding Gradient Noise Improves Learning for Very Deep Networks"), whose standard deviation
// is the setting "gradient_noise". Nothing of it is in the library.

namespace ct = constrain;
using namespace constrain::test;

namespace own {

/// gradient += strength * N(0, 1), different for every tensor, element and step. Inputs: the strength; in fp16 also the
/// scale of the loss, by which the gradients are multiplied. Ranks add up their gradients later, so only the first rank
/// adds noise.
struct add_noise {
  struct options {
    ct::shape shape;
    ct::dtype type;
  };
  static constexpr char const* name = "add_noise";
  static constexpr unsigned accumulating = 0b1;
  static constexpr bool draws_random = true;

  static constexpr ct::inferred infer(ct::operand_types const&, options const& o) {
    return ct::inferred::one(o.type, o.shape);
  }
};

struct no_noise;

struct noise_slot {
  bool adds = false;
  friend constexpr bool operator==(noise_slot const&, noise_slot const&) = default;
  template <class...> using otherwise = no_noise;
  CONSTRAIN_RULE(one_noise, (ct::said<noise_slot> const& s), s.given <= 1,
                 "policies: more than one gradient_noise policy is given; keep one");
  using rules = ct::rule_list<one_noise>;
};
struct no_noise {
  using slot = noise_slot;
  static constexpr slot value{};
};
struct gradient_noise {
  using slot = noise_slot;
  static constexpr slot value{.adds = true};
  static constexpr auto after = ct::pass_name::differentiated;

  static constexpr ct::program pass(ct::program const& p, slot const&) {
    if (!p.failure.ok()) return p;
    ct::builder out;
    out.program = p;
    auto const strength = ct::setting(ct::value{out, p.result("loss")}, "gradient_noise", 0);
    ct::for_each_gradient(out, [&](ct::value gradient) {
      add_noise::options const options{gradient.shape(), gradient.type()};
      if (p.loss_scale) out.call<add_noise>({strength.where(), p.loss_scale}, {gradient.where()}, options);
      else out.call<add_noise>({strength.where()}, {gradient.where()}, options);
    });
    return out.program;
  }
};
static_assert(ct::is_policy<gradient_noise> && ct::has_own_pass<gradient_noise> && !ct::has_own_pass<no_noise>);

} // namespace own

template <> struct constrain::kernel<own::add_noise, constrain::cpu> {
  template <class real>
  static void run(call_of<own::add_noise> const& c, tensor<double const> strength, tensor<real> gradient) {
    add(c, strength[0], gradient);
  }
  template <class real>
  static void run(call_of<own::add_noise> const& c, tensor<double const> strength, tensor<double const> loss_scale,
                  tensor<real> gradient) {
    add(c, strength[0] * loss_scale[0], gradient);
  }

private:
  template <class real> static void add(call const& c, double deviation, tensor<real> gradient) {
    bool const draws = c.parameters.data == nullptr || c.parameters.data->rank() == 0;
    random_stream const stream{c.parameters.seed, c.parameters.step, c.random_key, c.iteration};
    parallel_for((gradient.count + 3) / 4, [=](std::int64_t quad) {
      auto const bits = stream.draw(0, quad);
      auto const first = normal(bits.word[0], bits.word[1]), second = normal(bits.word[2], bits.word[3]);
      double const noise[] = {first.first, first.second, second.first, second.second};
      for (std::int64_t i = quad * 4; i < std::min(quad * 4 + 4, gradient.count); ++i) {
        auto const added = draws ? static_cast<real>(deviation * noise[i - quad * 4]) : real(0);
        gradient[i] = c.add_to(0) ? gradient[i] + added : added;
      }
    });
  }
};

namespace {

using own::gradient_noise;

template <class... policies> using trainer = ct::trainer<small_gpt, policies...>;
using fp64 = ct::precision::fp64;

// The policy costs one setting and the calls to its kernel.
static_assert(trainer<gradient_noise>::memory.peak == trainer<>::memory.peak + ct::bytes(64)); // padded

/// The noise of the first step in all gradients: the difference to the trainer without the policy.
template <class... policies> std::vector<std::vector<double>> noise_of(double strength) {
  trainer<gradient_noise, policies...> t;
  trainer<policies...> plain;
  t.set("gradient_noise", strength);
  step(t, 0), step(plain, 0);
  std::vector<std::vector<double>> all;
  for (auto const& p : t.parameters()) {
    all.push_back(values(t.gradient(p.name)));
    auto const without = values(plain.gradient(p.name));
    for (std::size_t i = 0; i < without.size(); ++i) all.back()[i] -= without[i];
  }
  return all;
}

} // namespace

TEST_CASE("gradient noise: every tensor, layer and step has its own standard normal numbers") {
  auto const noise = noise_of<fp64>(0.5);
  double count = 0, sum = 0, squares = 0, products = 0, layers = 0;
  for (auto const& tensor : noise)
    for (std::size_t i = 0; i < tensor.size(); ++i) {
      double const z = tensor[i] / 0.5;
      count += 1, sum += z, squares += z * z;
      products += z * noise[0][i % noise[0].size()] / 0.5 * (&tensor == &noise[0] ? 0 : 1);
      if (tensor.size() % 3 == 0) layers += z * tensor[(i + tensor.size() / 3) % tensor.size()] / 0.5;
    }
  double const within = 5 / std::sqrt(count);
  CHECK(count == trainer<>::parameter_count);
  CHECK(std::abs(sum / count) < within);
  CHECK(std::abs(squares / count - 1) < std::sqrt(2.0) * within);
  CHECK(std::abs(products / count) < within); // of two tensors
  CHECK(std::abs(layers / count) < within);   // of two layers
}

TEST_CASE("gradient noise: it is part of the gradient norm, and 0 changes no bit") {
  trainer<gradient_noise> noisy, still;
  trainer<> plain;
  noisy.set("gradient_noise", 1);
  double const norm = step(noisy, 0).gradient_norm;
  auto const a = step(still, 0), b = step(plain, 0);
  CHECK(a.gradient_norm == b.gradient_norm);
  CHECK(norm > 0.9 * std::sqrt(static_cast<double>(trainer<>::parameter_count)));
  CHECK(step(still, 1).loss == step(plain, 1).loss);
}

TEST_CASE("gradient noise: once per step under accumulation, the same under checkpointing and with a scaled loss") {
  auto const close = [](std::vector<std::vector<double>> const& a, std::vector<std::vector<double>> const& b,
                        double within) {
    double apart = 0;
    for (std::size_t p = 0; p < a.size(); ++p)
      for (std::size_t i = 0; i < a[p].size(); ++i) apart = std::max(apart, std::abs(a[p][i] - b[p][i]));
    return apart < within;
  };
  auto const expected = noise_of<fp64>(0.5);
  CHECK(close(noise_of<fp64, ct::accumulate<2>>(0.5), expected, 1e-12));
  CHECK(close(noise_of<fp64, ct::checkpoint::every<2>>(0.5), expected, 1e-12));
  CHECK(close(noise_of<ct::precision::fp16>(0.5), expected, 1e-5));
}

TEST_CASE("gradient noise: it is set between steps, saved and resumed") {
  temporary_directory const directory;
  trainer<gradient_noise> whole, first, resumed;
  auto const two_steps = [](auto& t) {
    t.set("gradient_noise", 0.1);
    step(t, 0);
    t.set("gradient_noise", 0.01);
    step(t, 1);
  };
  two_steps(whole), two_steps(first);
  first.save(directory / "run");
  resumed.load(directory / "run");
  CHECK(resumed.setting("gradient_noise") == 0.01);
  for (int i = 2; i < 5; ++i) CHECK(step(resumed, i).loss == step(whole, i).loss);
}
