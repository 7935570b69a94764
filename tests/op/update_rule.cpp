#include "fixtures.hpp"
#include "op/own_rule.hpp"
#include "temporary_directory.hpp"

#include <cmath>
#include <limits>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

static_assert(ct::is_optimizer<normalized_momentum> && ct::has_update_rule<normalized_momentum>);
static_assert(!ct::has_update_rule<ct::optimizer::adamw>);

using model = ct::task<ct::gpt2{.layers = 5, .heads = 2, .width = 16, .vocabulary = 32, .context = 8}, ct::causal_lm,
                       ct::micro_batch{.sequences = 2}>;
template <class... policies> using trainer = ct::trainer<model, normalized_momentum, policies...>;

template <class trainer> void step(trainer& t, int number, int spoiled = 0) {
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens)), labels(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = static_cast<std::int32_t>((i * 7 + static_cast<std::size_t>(number)) % 32);
    labels[i] = static_cast<std::int32_t>((i * 7 + 7 + static_cast<std::size_t>(number)) % 32);
  }
  if (spoiled != 0) {
    auto bias = t.parameters().back();
    std::vector<float> values(static_cast<std::size_t>(bias.size()));
    bias.copy_to(std::span(values));
    auto wrong = values;
    wrong[0] = spoiled == 1 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    bias.copy_from(std::span<float const>(wrong));
    CHECK(t.step(t.batch(inputs, labels)).skipped);
    bias.copy_from(std::span<float const>(values));
    return;
  }
  CHECK(!t.step(t.batch(inputs, labels)).skipped);
}

/// Weights and states, as the trainer saves them.
template <class trainer> std::string bytes_of(trainer const& t) {
  temporary_directory const directory;
  t.save(directory / "run");
  return read_file(directory / "run/model.safetensors") + read_file(directory / "run/optimizer.safetensors");
}

} // namespace

TEST_CASE("a rule works on one tensor of the model at a time") {
  trainer<> t{{.momentum = 0}};
  std::vector<std::vector<float>> before, after;
  auto const weights = [&](auto& all) {
    for (auto const& p : t.parameters()) {
      all.emplace_back(static_cast<std::size_t>(p.size()));
      p.copy_to(std::span(all.back()));
    }
  };
  weights(before);
  step(t, 0);
  weights(after);
  // Each tensor of each layer moves by the learning rate, in its root mean square; queries, keys and values are three
  // tensors. Gradients of the biases of keys are rounding, of the size of what the kernel adds to the root mean square.
  for (std::size_t p = 0; p < before.size(); ++p) {
    auto const view = t.parameters()[p];
    bool const is_fused = view.name.find("qkv") != view.name.npos;
    auto const elements = view.shape().elements() / (is_fused ? 3 : 1);
    for (std::int64_t tensor = 0; tensor < view.size() / elements; ++tensor) {
      if (view.name.ends_with("qkv.bias") && tensor % 3 == 1) continue;
      double squares = 0;
      for (std::int64_t i = tensor * elements; i < (tensor + 1) * elements; ++i)
        squares += std::pow(after[p][static_cast<std::size_t>(i)] - before[p][static_cast<std::size_t>(i)], 2);
      CHECK(std::sqrt(squares / static_cast<double>(elements)) == doctest::Approx(0.1).epsilon(1e-4));
    }
  }
}

TEST_CASE("a gradient that is not finite changes no weight and no state of a rule that checks nothing") {
  for (int const spoiled : {1, 2}) {
    trainer<> t;
    for (int i = 0; i < 3; ++i) step(t, i);
    auto const before = bytes_of(t);
    step(t, 3, spoiled);
    CHECK(bytes_of(t) == before);
  }
}

TEST_CASE("checkpointing and accumulation leave a rule's bits alone; it resumes bit-identically at every step") {
  trainer<> plain;
  trainer<ct::checkpoint::every<1>> every;
  trainer<ct::checkpoint::every<2>> segments;
  temporary_directory const directory;
  for (int i = 0; i < 4; ++i) {
    plain.save(directory / "run" + std::to_string(i));
    step(plain, i), step(every, i), step(segments, i);
  }
  auto const expected = bytes_of(plain);
  CHECK(bytes_of(every) == expected);
  CHECK(bytes_of(segments) == expected);
  for (int i = 0; i < 4; ++i) {
    trainer<> resumed;
    resumed.load(directory / "run" + std::to_string(i));
    for (int k = i; k < 4; ++k) step(resumed, k);
    CHECK(bytes_of(resumed) == expected);
  }
  trainer<ct::accumulate<2>> twice;
  step(twice, 0);
}

TEST_CASE("the states of a rule are planned, named and start at their initial value") {
  using all = trainer<>::entries;
  // Queries, keys and values are three parts, in the weight and in the bias.
  CHECK(all::parameters.states_size == 2 * (all::parameters.size + 2 * 2));
  trainer<> t;
  std::int64_t expected = 0;
  for (auto const& p : t.parameters())
    expected += 4 * p.size() + 8 * p.iterations() * (p.name.find("qkv") != p.name.npos ? 3 : 1);
  CHECK(trainer<>::memory.optimizer_state.count() == expected);
  temporary_directory const directory;
  t.save(directory / "run");
  auto const bytes = read_file(directory / "run/optimizer.safetensors");
  CHECK(bytes.find("token.weight.momentum_buffer") != std::string::npos);
  CHECK(bytes.find("token.weight.count") != std::string::npos);
  CHECK(bytes.find("block.attention.qkv.bias.count.2") != std::string::npos);
  double three = 3;
  CHECK(bytes.find(std::string(reinterpret_cast<char const*>(&three), 8)) != std::string::npos);
}

TEST_CASE("explain marks the parameters to which a rule applies weight decay") {
  auto const parameters = [](std::string const& text) {
    auto const begin = text.find("\nparameters\n");
    return text.substr(begin, text.find("\nmemory\n") - begin);
  };
  auto const of_the_rule = parameters(ct::explanation<trainer<>>());
  CHECK(of_the_rule == parameters(ct::explanation<ct::trainer<model, ct::optimizer::adamw>>()));
  CHECK(of_the_rule.find("  decays\n") != std::string::npos);
}
