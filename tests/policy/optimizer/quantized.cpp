#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

// 8-bit states in trainers; tests/op/quantized_update.cpp has their arithmetic.

namespace ct = constrain;
using namespace constrain::test;
using ct::optimizer::adamw;
using ct::optimizer::adamw_8bit;
using ct::optimizer::quantized;
using ct::shape;

namespace {

static_assert(ct::is_optimizer<adamw_8bit> && ct::has_update_rule<adamw_8bit>);
static_assert(std::is_same_v<adamw_8bit, quantized<adamw>> && std::is_same_v<adamw_8bit::hyper, adamw::hyper>);

// All tensors that are trained here have 8-bit states, and whole blocks.
struct matrices {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 64, .width = 64});
    return ct::repeat("block", 3, x, [](ct::value x) { return x + ct::linear("inner", x, 64, {.bias = false}); });
  }
};
using only_matrices = ct::trainer<ct::task<matrices{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>,
                                  adamw_8bit, ct::freeze<ct::role::embedding>>;
constexpr std::int64_t weights = 3 * 64 * 64;
static_assert(only_matrices::memory.optimizer_state == ct::bytes(2 * (weights + weights * 4 / 256)));

using model = ct::task<ct::gpt2{.layers = 5, .heads = 2, .width = 46, .vocabulary = 96, .context = 16}, ct::causal_lm,
                       ct::micro_batch{.sequences = 2}>;
template <class... policies> using trainer = ct::trainer<model, adamw_8bit, policies...>;

/// Bytes of the states of a trainer, from the definition.
template <class trainer> constexpr std::int64_t expected_bytes(std::int64_t wide = 4) {
  std::int64_t bytes = 0;
  for (auto const& p : trainer::entries::parameters.parameters) {
    auto const elements = p.shape.elements();
    bool const small = p.role == ct::role::embedding || elements < 4096;
    bytes += 2 * p.iterations * (small ? wide * elements : elements + 4 * ((elements + 255) / 256));
  }
  return bytes;
}
static_assert(trainer<>::memory.optimizer_state == ct::bytes(expected_bytes<trainer<>>()));
static_assert(trainer<ct::precision::fp64>::memory.optimizer_state ==
              ct::bytes(expected_bytes<trainer<ct::precision::fp64>>(8)));

template <class trainer> ct::step_result step(trainer& t, int number) {
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens)), labels(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = static_cast<std::int32_t>((i * 7 + static_cast<std::size_t>(number)) % 96);
    labels[i] = static_cast<std::int32_t>((i * 7 + 7 + static_cast<std::size_t>(number)) % 96);
  }
  return t.step(t.batch(inputs, labels));
}

/// Weights and states, as the trainer saves them.
template <class trainer> std::string bytes_of(trainer const& t) {
  temporary_directory const directory;
  t.save(directory / "run");
  return read_file(directory / "run/model.safetensors") + read_file(directory / "run/optimizer.safetensors");
}

} // namespace

TEST_CASE("quantized: embeddings and small tensors keep the states of the optimizer") {
  auto const& all = trainer<>::entries::parameters;
  int codes = 0, scales = 0, wide = 0;
  for (auto const& state : all.states) {
    auto const& p = all.parameters[state.parameter];
    bool const small = p.role == ct::role::embedding || p.shape.elements() < 4096;
    bool const is_scale = !small && state.type == ct::dtype::f32;
    CHECK(state.shape == (is_scale ? shape((p.shape.elements() + 255) / 256) : p.shape));
    CHECK(state.type == (small || is_scale ? ct::dtype::f32 : ct::dtype::u8));
    ++(small ? wide : is_scale ? scales : codes);
  }
  CHECK(codes == scales);
  CHECK(codes == 2 * 3); // qkv, up and down
  CHECK(wide == 2 * (static_cast<int>(std::size(all.parameters)) - 3));
}

TEST_CASE("quantized: everything stores the states of every tensor in 8 bits, and trains nearly as its optimizer") {
  using everything = quantized<adamw, ct::optimizer::everything>;
  using eight_bits = ct::trainer<model, everything>;
  std::int64_t bytes = 0;
  for (auto const& p : eight_bits::entries::parameters.parameters) {
    auto const elements = p.shape.elements();
    bytes += 2 * p.iterations * (elements + 4 * ((elements + 255) / 256));
  }
  CHECK(eight_bits::memory.optimizer_state == ct::bytes(bytes));
  CHECK(ct::policy_name<everything>() == "quantized_everything<adamw>");

  eight_bits t{{.learning_rate = 3e-3f}};
  ct::trainer<model, adamw> exact{{.learning_rate = 3e-3f}};
  double losses[2]{}, first = 0;
  for (int i = 0; i < 100; ++i) {
    losses[0] = step(t, i % 7).loss, losses[1] = step(exact, i % 7).loss;
    if (i == 0) first = losses[1];
  }
  MESSAGE("loss after 100 steps: " << losses[0] << " in 8 bits, " << losses[1] << " in 32, " << first << " at first");
  CHECK(losses[1] < 0.5 * first);
  CHECK(std::abs(losses[0] - losses[1]) < 0.1 * losses[1]);
  temporary_directory const directory;
  t.save(directory / "run");
  trainer<> large_tensors_only;
  auto const text = sentence([&] { large_tensors_only.load(directory / "run"); });
  CHECK(text.find("quantized_everything<adamw>") != std::string::npos);
}

TEST_CASE("quantized: the states begin with the code of 0 and have names of their own") {
  trainer<> t;
  temporary_directory const directory;
  t.save(directory / "run");
  auto const file = ct::io::safetensors_file::open(directory / "run/optimizer.safetensors");
  for (auto const* name : {"exp_avg", "exp_avg_sq"}) {
    auto const* codes = file.find(std::string("block.mlp.up.weight.") + name);
    auto const* scales = file.find(std::string("block.mlp.up.weight.") + name + "_scale");
    REQUIRE((codes != nullptr && scales != nullptr));
    CHECK(codes->dtype == "U8");
    CHECK(codes->shape == std::vector<std::int64_t>{5, 184, 46});
    CHECK(scales->dtype == "F32");
    CHECK(scales->shape == std::vector<std::int64_t>{5, 34});
    auto const zero = static_cast<std::byte>(std::string_view(name) == "exp_avg" ? 127 : 0);
    CHECK(std::all_of(codes->bytes.begin(), codes->bytes.end(), [=](std::byte b) { return b == zero; }));
    CHECK(std::all_of(scales->bytes.begin(), scales->bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST_CASE("quantized: a gradient that is not finite changes no weight and no state") {
  for (float const spoiled : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    trainer<> t;
    for (int i = 0; i < 3; ++i) CHECK(!step(t, i).skipped);
    auto const before = bytes_of(t);
    auto const bias = t.parameters().back();
    std::vector<float> values(static_cast<std::size_t>(bias.size()));
    bias.copy_to(std::span(values));
    auto wrong = values;
    wrong[0] = spoiled;
    bias.copy_from(std::span<float const>(wrong));
    CHECK(step(t, 3).skipped);
    bias.copy_from(std::span<float const>(values));
    CHECK(bytes_of(t) == before);
  }
}

TEST_CASE("quantized: bit-identical with checkpointing, and after a resume at every step") {
  trainer<> plain;
  trainer<ct::checkpoint::every<2>> segments;
  temporary_directory const directory;
  for (int i = 0; i < 4; ++i) {
    plain.save(directory / "run" + std::to_string(i));
    step(plain, i), step(segments, i);
  }
  auto const expected = bytes_of(plain);
  CHECK(bytes_of(segments) == expected);
  for (int i = 0; i < 4; ++i) {
    trainer<> resumed;
    resumed.load(directory / "run" + std::to_string(i));
    for (int k = i; k < 4; ++k) step(resumed, k);
    CHECK(bytes_of(resumed) == expected);
  }
}

TEST_CASE("quantized: the name has the name of its optimizer, which no other resumes") {
  trainer<> t{{}, {}};
  temporary_directory const directory;
  t.save(directory / "run");
  ct::trainer<model, adamw> exact;
  auto const text = sentence([&] { exact.load(directory / "run"); });
  CAPTURE(text);
  CHECK(text.find("quantized<adamw>") != std::string::npos);
}

TEST_CASE("quantized: hyperparameters are the ones of its optimizer, and checked as such") {
  CHECK(sentence([] { trainer<> const t{{.beta1 = 1}}; }) ==
        sentence([] { ct::trainer<model, adamw> const t{{.beta1 = 1}}; }));
  CHECK(!sentence([] { trainer<> const t{{.beta1 = 1}}; }).empty());
}

TEST_CASE("quantized: other optimizers wrap it") {
  ct::trainer<model, ct::optimizer::averaged<adamw_8bit>> averaged;
  trainer<> plain;
  for (int i = 0; i < 3; ++i) step(averaged, i), step(plain, i);
  for (std::size_t p = 0; p < plain.parameters().size(); ++p) {
    std::vector<float> got(static_cast<std::size_t>(plain.parameters()[p].size())), expected(got);
    averaged.parameters()[p].copy_to(std::span(got));
    plain.parameters()[p].copy_to(std::span(expected));
    CHECK(got == expected);
  }
}

TEST_CASE("quantized: trains nearly as its optimizer, and without states as it to the bit") {
  trainer<> quantized_trainer{{.learning_rate = 3e-3f, .weight_decay = 0.01f}};
  ct::trainer<model, adamw> exact{{.learning_rate = 3e-3f, .weight_decay = 0.01f}};
  double losses[2]{}, first = 0;
  for (int i = 0; i < 100; ++i) {
    losses[0] = step(quantized_trainer, i % 7).loss, losses[1] = step(exact, i % 7).loss;
    if (i == 0) first = losses[1];
  }
  MESSAGE("loss after 100 steps: " << losses[0] << " in 8 bits, " << losses[1] << " in 32, " << first << " at first");
  CHECK(losses[1] < 0.5 * first);
  CHECK(std::abs(losses[0] - losses[1]) < 0.1 * losses[1]);

  ct::trainer<model, quantized<ct::optimizer::sgd>> nothing_to_quantize;
  ct::trainer<model, ct::optimizer::sgd> sgd;
  for (int i = 0; i < 3; ++i) step(nothing_to_quantize, i), step(sgd, i);
  CHECK(bytes_of(nothing_to_quantize) == bytes_of(sgd));
}
