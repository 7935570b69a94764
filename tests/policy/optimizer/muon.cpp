#include "fixtures.hpp"
#include "policy/optimizer/gpt2_in_parts.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

// Muon in trainers; tests/op/muon.cpp has its arithmetic.

namespace ct = constrain;
using namespace constrain::test;

namespace {

using muon = ct::optimizer::muon<ct::optimizer::adamw>;
static_assert(ct::is_optimizer<muon> && ct::has_update_rule<muon> && std::is_same_v<muon, ct::optimizer::muon<>>);

using model = ct::task<ct::gpt2{.layers = 5, .heads = 2, .width = 16, .vocabulary = 32, .context = 8}, ct::causal_lm,
                       ct::micro_batch{.sequences = 2}>;
template <class... policies> using trainer = ct::trainer<model, muon, policies...>;

// One value per weight of a matrix, two for the other parameters. Scratch: a matrix [64, 16] and two squares [16, 16].
constexpr std::int64_t matrices = 5 * 12 * 16 * 16;
static_assert(trainer<>::memory.optimizer_state ==
              ct::bytes(4 * matrices + 8 * (trainer<>::parameter_count - matrices)));
static_assert(trainer<ct::precision::fp64>::memory.optimizer_state == 2 * trainer<>::memory.optimizer_state);
static_assert(trainer<>::memory.workspace >= ct::bytes(4 * (64 * 16 + 2 * 16 * 16)));

muon::hyper const hyper{
    .learning_rate = 0.02f, .weight_decay = 0.1f, .base = {.learning_rate = 1e-3f, .weight_decay = 0.1f}};

template <class trainer> double step(trainer& t, int number, float spoiled = 0) {
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens)), labels(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = static_cast<std::int32_t>((i * 7 + static_cast<std::size_t>(number)) % 32);
    labels[i] = static_cast<std::int32_t>((i * 7 + 7 + static_cast<std::size_t>(number)) % 32);
  }
  if (spoiled == 0) return t.step(t.batch(inputs, labels)).loss;
  auto const bias = t.parameters().back();
  std::vector<float> values(static_cast<std::size_t>(bias.size()));
  bias.copy_to(std::span(values));
  auto wrong = values;
  wrong[0] = spoiled;
  bias.copy_from(std::span<float const>(wrong));
  CHECK(t.step(t.batch(inputs, labels)).skipped);
  bias.copy_from(std::span<float const>(values));
  return 0;
}

/// Weights and states, as the trainer saves them.
template <class trainer> std::string bytes_of(trainer const& t) {
  temporary_directory const directory;
  t.save(directory / "run");
  return read_file(directory / "run/model.safetensors") + read_file(directory / "run/optimizer.safetensors");
}

} // namespace

TEST_CASE("muon: ten steps of a GPT-2 as PyTorch, q, k and v as three matrices, AdamW for what is no matrix") {
  CHECK(difference_from_pytorch<muon>("muon.safetensors", hyper, 1e-10) <= 1e-10); // seen: 3.6e-16
}

TEST_CASE("muon: matrices of role weight have a momentum, the other parameters the states of the base") {
  trainer<> t{hyper};
  step(t, 0);
  temporary_directory const directory;
  t.save(directory / "run");
  auto const bytes = read_file(directory / "run/optimizer.safetensors");
  for (auto const& p : t.parameters()) {
    CAPTURE(std::string(p.name));
    bool const is_matrix = p.role == ct::role::weight && p.shape().rank == 2;
    CHECK(is_matrix ==
          (p.name.find("block.") == 0 && p.name.ends_with(".weight") && p.name.find("norm") == p.name.npos));
    // Queries, keys and values are three matrices.
    bool const is_fused = p.name == "block.attention.qkv.weight";
    for (std::string const state : {"", ".0", ".1", ".2"}) {
      bool const is_saved = bytes.find("\"" + std::string(p.name) + ".momentum_buffer" + state + "\"") != bytes.npos;
      CHECK(is_saved == (is_matrix && is_fused == !state.empty()));
    }
    CHECK((bytes.find("\"" + std::string(p.name) + ".exp_avg_sq\"") != std::string::npos) == !is_matrix);
  }
}

TEST_CASE("muon: its name holds its steps and the name of its base, and a run resumes only with all of them") {
  using of_sgd = ct::optimizer::muon<ct::optimizer::sgd>;
  using one_step = ct::optimizer::muon<ct::optimizer::adamw, 1>;
  CHECK(ct::policy_name<muon>() == "muon<adamw>");
  CHECK(trainer<>::policy_set::name().find("muon<adamw>") != std::string::npos);
  CHECK(ct::policy_name<of_sgd>() == "muon<sgd>");
  CHECK(ct::policy_name<ct::optimizer::averaged<muon>>() == "averaged<muon<adamw>>");
  CHECK(ct::policy_name<one_step>() == "muon_steps_1<adamw>");
  CHECK(ct::policy_name<ct::optimizer::averaged<ct::optimizer::muon<ct::optimizer::sgd, 12>>>() ==
        "averaged<muon_steps_12<sgd>>");
  CHECK(ct::policy_name<ct::optimizer::muon<ct::optimizer::sgd, 99>>() == "muon_steps_99<sgd>");
  temporary_directory const directory;
  trainer<>{hyper}.save(directory / "run");
  ct::trainer<model, of_sgd> other;
  CHECK(sentence([&] { other.load(directory / "run"); }).find("muon<adamw>") != std::string::npos);
  ct::trainer<model, one_step> of_one_step;
  CHECK(sentence([&] { of_one_step.load(directory / "run"); }).find("muon<adamw>") != std::string::npos);
}

TEST_CASE("muon: a gradient that is not finite changes no weight and no state") {
  for (float const spoiled : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    trainer<> t{hyper};
    for (int i = 0; i < 2; ++i) step(t, i);
    auto const before = bytes_of(t);
    step(t, 2, spoiled);
    CHECK(bytes_of(t) == before);
  }
}

TEST_CASE("muon: checkpointing and fusion change no bit; it resumes bit-identically at every step") {
  trainer<> plain{hyper};
  trainer<ct::checkpoint::every<2>> segments{hyper};
  temporary_directory const directory;
  for (int i = 0; i < 4; ++i) {
    plain.save(directory / "run" + std::to_string(i));
    step(plain, i), step(segments, i);
  }
  auto const expected = bytes_of(plain);
  CHECK(bytes_of(segments) == expected);
  for (int i = 0; i < 4; ++i) {
    trainer<> resumed{hyper};
    resumed.load(directory / "run" + std::to_string(i));
    for (int k = i; k < 4; ++k) step(resumed, k);
    CHECK(bytes_of(resumed) == expected);
  }
}

TEST_CASE("muon: trains in fp32 and in bf16, with accumulation") {
  auto const train = [](auto t) {
    double const first = step(t, 0);
    double last = first;
    for (int i = 0; i < 30; ++i) last = step(t, 0);
    CHECK(last < 0.5 * first);
  };
  auto faster = hyper;
  faster.base.learning_rate = 1e-2f;
  train(trainer<>{faster});
  train(trainer<ct::precision::bf16, ct::accumulate<2>>{faster});
}

TEST_CASE("muon: it may be the base of another optimizer") {
  using average_of_muon = ct::optimizer::averaged<muon>;
  ct::trainer<model, muon> plain{hyper};
  ct::trainer<model, average_of_muon> outside{average_of_muon::hyper{.base = hyper}};
  for (int i = 0; i < 3; ++i) step(plain, i), step(outside, i);
  temporary_directory const directory;
  plain.save(directory / "plain"), outside.save(directory / "outside");
  CHECK(read_file(directory / "outside/model.safetensors") == read_file(directory / "plain/model.safetensors"));
}

TEST_CASE("muon: a hyperparameter outside its range is an error, of the base's too") {
  auto const refusal = [](auto const& change) {
    auto h = hyper;
    change(h);
    return sentence([&] { trainer<> const t(h); });
  };
  CHECK(refusal([](auto&) {}).empty());
  CHECK(refusal([](auto& h) { h.learning_rate = -1; }) ==
        "muon: .learning_rate is -1; give a finite number of at least 0");
  CHECK(refusal([](auto& h) { h.momentum = 1; }) == "muon: .momentum is 1; give a number of at least 0 and below 1");
  CHECK(refusal([](auto& h) { h.weight_decay = -1; }) ==
        "muon: .weight_decay is -1; give a finite number of at least 0");
  CHECK(refusal([](auto& h) { h.epsilon = 0; }) == "muon: .epsilon is 0; give a finite number above 0");
  CHECK(refusal([](auto& h) { h.a = std::numeric_limits<float>::quiet_NaN(); }) ==
        "muon: .a is nan; give a finite number");
  CHECK(refusal([](auto& h) { h.b = std::numeric_limits<float>::infinity(); }) ==
        "muon: .b is inf; give a finite number");
  CHECK(refusal([](auto& h) { h.c = -std::numeric_limits<float>::infinity(); }) ==
        "muon: .c is -inf; give a finite number");
  CHECK(refusal([](auto& h) { h.rate = static_cast<ct::optimizer::muon_rate>(99); }) ==
        "muon: .rate is 99; give muon_rate::original, match_rms_adamw or spectral_unclamped");
  int visited = 0;
  ct::detail::for_each_hyperparameter(hyper, [&](std::string const&, auto) { ++visited; });
  CHECK(visited == 4 + 9 + 5 + 5); // four and nine of muon's, by name and by position, and all of adamw's twice
  CHECK(refusal([](auto& h) { h.base.beta2 = 1; }) == "adamw: .beta2 is 1; give a number of at least 0 and below 1");
}
