#include "policy/small_gpt.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

// Weights without what training needs: the same numbers as a trainer's, in fewer bytes.

namespace ct = constrain;
using namespace constrain::test;

namespace {

template <class... policies> using trainer = ct::trainer<small_gpt, policies...>;
template <class... policies> using inference = ct::inference<small_gpt, policies...>;

/// Bytes of the parameters: `narrow` per element of a matrix, 4 of a vector.
template <class model> constexpr ct::bytes expected_bytes(int narrow) {
  std::int64_t bytes = 0;
  for (auto const& p : model::entries::parameters.parameters) bytes += p.elements() * (p.shape.rank >= 2 ? narrow : 4);
  return ct::bytes(bytes);
}
static_assert(inference<>::memory.weights == expected_bytes<inference<>>(4));
static_assert(inference<ct::precision::bf16>::memory.weights == expected_bytes<inference<ct::precision::bf16>>(2));
static_assert(inference<ct::precision::fp16>::memory.weights == expected_bytes<inference<ct::precision::fp16>>(2));
static_assert(inference<ct::precision::bf16>::memory.master_weights == ct::bytes(0));
static_assert(inference<>::memory.optimizer_state == ct::bytes(0) && inference<>::memory.gradients == ct::bytes(0));
static_assert(inference<>::parameter_count == trainer<>::parameter_count);
// A step is a forward pass, a backward pass of twice the work, and the update.
static_assert(inference<>::flops > 0 && 3 * inference<>::flops < 1.2 * trainer<>::flops);
static_assert(trainer<>::flops < 4 * inference<>::flops);

// GPT-2 124M in bf16: 2.002 bytes per parameter.
using gpt2_124m = ct::task<ct::gpt2{}, ct::causal_lm, ct::micro_batch{.sequences = 1}>;
using large = ct::inference<gpt2_124m, ct::precision::bf16>;
static_assert(large::memory.weights.count() * 1000 <= large::parameter_count * 2003);
static_assert(ct::inference<gpt2_124m>::memory.weights == ct::bytes(4 * large::parameter_count));

std::vector<std::int32_t> tokens(std::size_t count, int first) {
  std::vector<std::int32_t> all(count);
  for (std::size_t i = 0; i < count; ++i)
    all[i] = static_cast<std::int32_t>((i * 5 + static_cast<std::size_t>(first)) % 32);
  return all;
}

/// A trained run in `directory`, and whether an inference object gives its numbers.
template <class... policies> void check_same_numbers() {
  temporary_directory const directory;
  trainer<policies...> t({.learning_rate = 1e-2f});
  for (int i = 0; i < 3; ++i) step(t, i);
  t.save(directory / "run");
  inference<policies...> model;
  model.load_pretrained(directory / "run");

  auto const inputs = tokens(3 * 16, 1), labels = tokens(3 * 16, 6);
  auto const got = model.evaluate(inputs, labels), expected = t.evaluate(inputs, labels);
  CHECK(got.loss == expected.loss);
  CHECK(got.accuracy == expected.accuracy);
  CHECK(got.tokens == expected.tokens);
  auto const one = tokens(16, 3);
  CHECK(model.predict(one).logits == t.predict(one).logits);
  auto const prompt = tokens(4, 2);
  CHECK(model.generate(prompt, 12, {.temperature = 0.9, .seed = 5}) ==
        t.generate(prompt, 12, {.temperature = 0.9, .seed = 5}));
  auto const corpus = ct::data::random_tokens(200, 32);
  CHECK(model.evaluate(corpus).loss == t.evaluate(corpus).loss);
}

} // namespace

TEST_CASE("inference: the numbers of a trainer, bit for bit") {
  check_same_numbers<>();
  check_same_numbers<ct::precision::bf16>();
  check_same_numbers<ct::precision::fp16>();
  check_same_numbers<ct::precision::fp64, ct::optimizer::sgd>();
  check_same_numbers<ct::precision::pure_bf16, ct::attention::flash, ct::accumulate<2>, ct::checkpoint::every<1>>();
}

TEST_CASE("inference: the initial weights are those of a trainer with the same seed") {
  trainer<ct::precision::bf16> t({}, {.seed = 7});
  inference<ct::precision::bf16> model({.seed = 7});
  auto const one = tokens(16, 3);
  CHECK(model.predict(one).logits == t.predict(one).logits);
  CHECK(model.parameters().size() == t.parameters().size());
  CHECK(model.parameters()[0].type() == ct::dtype::bf16);
}

TEST_CASE("inference: the newest of several saved runs is loaded") {
  temporary_directory const directory;
  trainer<> t({.learning_rate = 1e-2f});
  for (int i : {9, 10}) {
    step(t, i);
    t.save(directory / "step-" + std::to_string(i));
  }
  inference<> model;
  model.load_pretrained(directory.path.string());
  auto const one = tokens(16, 3);
  CHECK(model.predict(one).logits == t.predict(one).logits);

  // A later one that is not complete is left out, and the reason is logged.
  std::filesystem::create_directory(directory / "step-11");
  inference<> again;
  again.load_pretrained(directory.path.string());
  CHECK(again.predict(one).logits == t.predict(one).logits);
}

TEST_CASE("inference: a file of weights is loaded as by a trainer of the same precision") {
  temporary_directory const directory;
  trainer<ct::precision::fp64> exact({}, {.seed = 4});
  exact.save(directory / "run"); // F64 is rounded to fp32 first, as a trainer's master weights are
  auto const file = directory / "run" + "/model.safetensors";
  trainer<ct::precision::bf16> t;
  t.load_pretrained(file);
  inference<ct::precision::bf16> model;
  model.load_pretrained(file);
  auto const one = tokens(16, 3);
  CHECK(model.predict(one).logits == t.predict(one).logits);
}

TEST_CASE("inference: what cannot be loaded is refused, and nothing changes") {
  temporary_directory const directory;
  ct::trainer<ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 18, .vocabulary = 32, .context = 8}, ct::causal_lm,
                       ct::micro_batch{.sequences = 2}>>
      other;
  other.save(directory / "other");
  inference<ct::precision::bf16> model;
  auto const one = tokens(16, 3);
  auto const before = model.predict(one).logits;
  CHECK(sentence([&] { model.load_pretrained(directory / "other"); }) ==
        "'" + (directory / "other") +
            "' does not match the inference object: its n_embd is 18, the inference object's is 16; load it into an "
            "inference object with the same n_embd");
  CHECK(sentence([&] { model.load_pretrained(directory / "nothing"); }) ==
        "the safetensors file '" + (directory / "nothing") + "' does not exist; check the path");
  CHECK(model.predict(one).logits == before);
}

TEST_CASE("inference: planned bytes are used") {
  inference<ct::precision::bf16> model({.measure_memory = true});
  auto const inputs = tokens(16, 1), labels = tokens(16, 6);
  model.evaluate(inputs, labels), model.predict(inputs), model.generate(tokens(3, 1), 2);
  CHECK(model.used_bytes() == model.memory.peak);
  CHECK(model.memory.peak < trainer<ct::precision::bf16>::memory.peak);
}

TEST_CASE("inference: checked mode finds nothing wrong") {
  inference<ct::precision::bf16> model({.checked = true});
  auto const inputs = tokens(16, 1), labels = tokens(16, 6);
  CHECK(model.evaluate(inputs, labels).loss > 0);
  CHECK(model.generate(tokens(3, 1), 2).size() == 5);
}
