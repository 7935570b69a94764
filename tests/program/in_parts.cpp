#include "fixtures.hpp"
#include "op/own_rule.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"
#include "values_of.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

// Parameters that hold several tensors: optimizers with a rule update each part as a tensor of its own.

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

static_assert(ct::part_list{}.extents.empty() && ct::part_list{4, 2}.extents.size() == 2);
static_assert(ct::part_list{4, 2} == ct::part_list{4, 2} && ct::part_list{4, 2} != ct::part_list{2, 4});
static_assert(ct::part_list{1, 1, 1, 1, 1, 1, 1, 1, 1}.extents.size() == ct::part_list::maximum);
static_assert(ct::part_list{1, 1, 1, 1, 1, 1, 1, 1, 1}.too_many && !ct::part_list{1, 1, 1, 1, 1, 1, 1, 1}.too_many);

enum class form { separate, in_parts, one };

/// Attention with 4 heads of queries and 2 of keys and values, after a sum of two layers that read halves of their
/// input. Each of them has separate matrices, or matrices side by side that are declared as parts, or not declared.
template <form f> struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 13, .width = 8});
    x = ct::repeat("block", 2, x, [](ct::value h) {
      h = h + halves(h);
      return h + ct::linear("projection", attention(h), 8);
    });
    return ct::linear("head", x, 13, {.role = ct::role::head});
  }

private:
  static constexpr ct::value attention(ct::value h) {
    ct::attention_options const heads{.heads = 4, .key_value_heads = 2};
    if constexpr (f == form::separate)
      return ct::self_attention(ct::linear("q", h, 8), ct::linear("k", h, 4), ct::linear("v", h, 4), heads);
    else if constexpr (f == form::in_parts)
      return ct::self_attention(ct::linear("qkv", h, 16, {.parts = {8, 4, 4}}), heads);
    else return ct::self_attention(ct::linear("qkv", h, 16), heads);
  }
  static constexpr ct::value halves(ct::value h) {
    auto const weight = [&](char const* name, std::int64_t columns) {
      return ct::parameter(h, name, shape(8, columns), ct::role::weight, {.stddev = 0.3});
    };
    if constexpr (f == form::separate)
      return ct::linear(ct::slice(h, 2, 0, 6), weight("left", 6)) +
             ct::linear(ct::slice(h, 2, 6, 2), weight("right", 2));
    else if constexpr (f == form::in_parts) return ct::linear(h, ct::in_parts(weight("both", 8), {6, 2}, 1));
    else return ct::linear(h, weight("both", 8));
  }
};
template <form f, class optimizer, class... policies>
using trainer = ct::trainer<ct::task<model<f>{}, ct::causal_lm, ct::micro_batch{.sequences = 3, .tokens = 5}>,
                            optimizer, policies...>;

/// Per layer, `parts` with these elements per row, side by side in `rows` rows.
std::vector<double> joined(std::vector<std::vector<double>> const& parts, std::vector<std::size_t> const& lengths,
                           std::size_t rows) {
  std::vector<double> all;
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t k = 0; k < parts.size(); ++k) {
      auto const begin = parts[k].begin() + static_cast<std::ptrdiff_t>(row * lengths[k]);
      all.insert(all.end(), begin, begin + static_cast<std::ptrdiff_t>(lengths[k]));
    }
  return all;
}

/// The parameter of the models with fused matrices, made of the parameters of the model with separate ones.
template <class trainer> std::vector<double> as_one(trainer const& t, std::string const& name) {
  auto const part = [&](char const* of) { return values_of(t, std::string("block.") + of); };
  if (name == "block.both") return joined({part("left"), part("right")}, {6, 2}, 2 * 8);
  if (name == "block.qkv.weight")
    return joined({part("q.weight"), part("k.weight"), part("v.weight")}, {8 * 8, 4 * 8, 4 * 8}, 2);
  if (name == "block.qkv.bias") return joined({part("q.bias"), part("k.bias"), part("v.bias")}, {8, 4, 4}, 2);
  return values_of(t, name);
}

template <class trainer> void step(trainer& t, int number) {
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens)), labels(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = static_cast<std::int32_t>((i * i * 3 + static_cast<std::size_t>(number)) % 13);
    labels[i] = static_cast<std::int32_t>((i * 7 + 5 + static_cast<std::size_t>(number)) % 13);
  }
  t.step(t.batch(inputs, labels));
}

/// The largest difference of a weight after ten steps from the weights of separate matrices.
template <form f, class optimizer> double difference(typename optimizer::hyper const& hyper) {
  trainer<form::separate, optimizer, ct::precision::fp64> expected{hyper, {.seed = 5}};
  trainer<f, optimizer, ct::precision::fp64> t{hyper, {.seed = 6}};
  for (auto const& p : t.parameters()) {
    auto const initial = as_one(expected, std::string(p.name));
    p.copy_from(std::span(initial));
  }
  for (int i = 0; i < 10; ++i) step(expected, i), step(t, i);
  double worst = 0;
  for (auto const& p : t.parameters()) {
    auto const values = values_of(t, std::string(p.name)), others = as_one(expected, std::string(p.name));
    // The loss does not depend on the biases of keys: their gradients are rounding.
    bool const with_keys = p.name == "block.qkv.bias";
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!with_keys || i % 16 < 8 || i % 16 >= 12) worst = std::max(worst, std::abs(values[i] - others[i]));
  }
  return worst;
}

template <class trainer> std::string bytes_of(trainer const& t) {
  temporary_directory const directory;
  t.save(directory / "run");
  return read_file(directory / "run/model.safetensors") + read_file(directory / "run/optimizer.safetensors");
}

/// Stores a new gradient and a parameter of another type, and reads both behind that.
struct reading {
  struct hyper {
    float learning_rate = 0.1f;
  };
  static constexpr void update(ct::update_rule& u) {
    auto const sum = u.state("sum");
    auto const narrow = [&](ct::value x) {
      return ct::emit<ct::op::cast>({x}, {.to = u.type() == ct::dtype::f64 ? ct::dtype::f32 : ct::dtype::f64});
    };
    u.assign(u.gradient(), u.gradient() * ct::emit<ct::op::constant_like>({u.gradient()}, {.value = -0.1}));
    u.assign(u.parameter(), narrow(u.parameter() + u.gradient()));
    u.assign(sum, sum + u.parameter());
  }
};

/// Assigns tensors that later calls change, and one tensor to two targets.
struct sharing {
  struct hyper {
    float learning_rate = 0.1f;
  };
  static constexpr void update(ct::update_rule& u) {
    auto const sum = u.state("sum");
    auto const moved = u.parameter() + u.gradient();
    u.assign(u.parameter(), moved);
    u.assign(u.gradient(), moved);
    u.assign(u.gradient(), u.gradient() * u.parameter());
    u.assign(sum, ct::tanh(sum + u.gradient()));
    u.assign(u.parameter(), sum);
    u.assign(sum, ct::tanh(sum * sum));
    u.assign(u.parameter(), ct::tanh(u.parameter() + sum));
  }
};

using muon = ct::optimizer::muon<ct::optimizer::adamw>;

} // namespace

TEST_CASE("in_parts: the parts of a parameter are updated as separate parameters are, along both dimensions") {
  auto const check = [&]<class optimizer>(typename optimizer::hyper const& hyper) {
    CAPTURE(ct::policy_name<optimizer>());
    CHECK(difference<form::in_parts, optimizer>(hyper) < 1e-10);
    CHECK(difference<form::one, optimizer>(hyper) > 1e-4); // what the declaration changes
  };
  check.template operator()<muon>({.learning_rate = 0.02f, .weight_decay = 0.1f, .base = {.learning_rate = 1e-3f}});
  check.template operator()<ct::optimizer::adafactor>({.learning_rate = 0.05f, .weight_decay = 0.1f});
  check.template operator()<ct::optimizer::adafactor_with_momentum>({.learning_rate = 0.05f});
  check.template operator()<normalized_momentum>({.weight_decay = 0.1f});
}

TEST_CASE("in_parts: a rule reads what it has stored in a part; the average is of the full parameter") {
  CHECK(difference<form::in_parts, reading>({}) < 1e-5); // parameters are rounded to fp32
  CHECK(difference<form::in_parts, sharing>({}) < 1e-10);
  using averaged = ct::optimizer::averaged<muon>;
  trainer<form::in_parts, averaged> t;
  step(t, 0);
  CHECK(t.state("block.qkv.weight", "average").size() == 2 * 16 * 8);
  CHECK(t.state("block.qkv.weight", "momentum_buffer.0").size() == 2 * 8 * 8);
}

TEST_CASE("in_parts: each part has states of its own; the parameter stays one tensor") {
  trainer<form::in_parts, muon> t;
  CHECK(t.parameters().size() == 8);
  for (int i = 0; i < 3; ++i) {
    auto const index = std::to_string(i);
    CHECK(t.state("block.qkv.weight", "momentum_buffer." + index).size() == 2 * 8 * (i == 0 ? 8 : 4));
  }
  CHECK(t.state("block.both", "momentum_buffer.1").size() == 2 * 8 * 2);
  CHECK(t.state("block.qkv.bias", "exp_avg").size() == 2 * 16); // AdamW is element-wise
  // The same number of states as for separate matrices.
  CHECK(trainer<form::in_parts, muon>::memory.optimizer_state == trainer<form::one, muon>::memory.optimizer_state);
  using ct::optimizer::adafactor;
  CHECK(trainer<form::in_parts, adafactor>::memory.optimizer_state ==
        trainer<form::separate, adafactor>::memory.optimizer_state);
}

TEST_CASE("in_parts: element-wise optimizers do the same with and without") {
  auto const check = [&]<class optimizer>() {
    trainer<form::in_parts, optimizer> t{{}, {.seed = 4}};
    trainer<form::one, optimizer> other{{}, {.seed = 4}};
    for (int i = 0; i < 3; ++i) step(t, i), step(other, i);
    CHECK(bytes_of(t) == bytes_of(other));
  };
  check.template operator()<ct::optimizer::adamw>();
  check.template operator()<ct::optimizer::adamw_8bit>();
  check.template operator()<ct::optimizer::by_role<ct::optimizer::adamw>>();
  check.template operator()<ct::optimizer::averaged<ct::optimizer::adamw>>();
}

TEST_CASE("in_parts: a run resumes bit-identically at every step, with checkpointing too") {
  auto const check = [&]<class optimizer>() {
    trainer<form::in_parts, optimizer> plain;
    trainer<form::in_parts, optimizer, ct::checkpoint::every<1>> segments;
    temporary_directory const directory;
    for (int i = 0; i < 4; ++i) {
      plain.save(directory / "run" + std::to_string(i));
      step(plain, i), step(segments, i);
    }
    auto const expected = bytes_of(plain);
    CHECK(bytes_of(segments) == expected);
    for (int i = 0; i < 4; ++i) {
      trainer<form::in_parts, optimizer> resumed;
      resumed.load(directory / "run" + std::to_string(i));
      for (int k = i; k < 4; ++k) step(resumed, k);
      CHECK(bytes_of(resumed) == expected);
    }
    // A parameter without parts has other states.
    trainer<form::one, optimizer> other;
    CHECK(!sentence([&] { other.load(directory / "run1"); }).empty());
  };
  check.template operator()<muon>();
  check.template operator()<ct::optimizer::adafactor>();
}
