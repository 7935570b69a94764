#include <constrain/constrain.hpp>
#include <constrain/io/directory_reader.hpp>
#include <constrain/io/directory_writer.hpp>
#include <doctest/doctest.h>

#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ct = constrain;
using ct::role;

namespace {

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 64, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using everything = ct::trainer<task, ct::optimizer::momentum>;
using biases = ct::trainer<task, ct::optimizer::momentum, ct::train_only<role::bias>>;

// The values of the policies.
static_assert(ct::freeze<>::value == ct::slot_of::freezing{});
static_assert(ct::freeze<role::embedding, role::norm>::value == ct::slot_of::freezing{.norm = true, .embedding = true});
static_assert(ct::train_only<role::bias>::value ==
              ct::freeze<role::weight, role::norm, role::embedding, role::head>::value);
static_assert(ct::freeze<role::head>::value.freezes(role::head) &&
              !ct::freeze<role::head>::value.freezes(role::weight));
static_assert(ct::has_own_pass<ct::freeze<role::head>> && !ct::has_own_pass<ct::freeze<>>);

// Frozen parameters have no gradient and no state: only the biases of four linear layers in each of two blocks have
// them.
constexpr std::int64_t bias_bytes = 4 * 2 * (48 + 16 + 64 + 16);
static_assert(biases::memory.gradients.count() == bias_bytes && biases::memory.optimizer_state.count() == bias_bytes);
static_assert(biases::memory.weights == everything::memory.weights);
static_assert(biases::parameter_count == everything::parameter_count);
static_assert(biases::flops < everything::flops);

template <class policy> using with = ct::trainer<task, ct::optimizer::momentum, policy>;

std::vector<std::int32_t> const tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

template <class trainer> std::map<std::string, std::vector<float>> weights_of(trainer const& t) {
  std::map<std::string, std::vector<float>> all;
  for (auto const& p : t.parameters()) {
    std::vector<float> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(values));
    all[std::string(p.name)] = values;
  }
  return all;
}
bool is_bias(std::string const& name) {
  return name.size() > 5 && name.substr(name.size() - 5) == ".bias" && name.find("norm") == std::string::npos;
}

} // namespace

TEST_CASE(
    "what is frozen stays bit for bit, and a first step moves the others as it does where everything is trained") {
  everything all({.learning_rate = 0.1f}, {.seed = 3});
  biases some({.learning_rate = 0.1f}, {.seed = 3});
  auto const start = weights_of(some);
  CHECK(start == weights_of(all));
  CHECK(all.step(all.batch(tokens, tokens, ct::labels::shift)).loss ==
        some.step(some.batch(tokens, tokens, ct::labels::shift)).loss);
  auto const after_all = weights_of(all), after_some = weights_of(some);
  int moved = 0;
  for (auto const& [name, values] : after_some) {
    CAPTURE(name);
    CHECK(values == (is_bias(name) ? after_all.at(name) : start.at(name)));
    CHECK(after_all.at(name) != start.at(name));
    moved += values != start.at(name) ? 1 : 0;
  }
  CHECK(moved == 4);
}

TEST_CASE("a saved run goes on with what it trained, and with nothing else") {
  ct::test::temporary_directory const directory;
  auto const path = directory / "run";
  biases some({.learning_rate = 0.1f}, {.seed = 3});
  some.step(some.batch(tokens, tokens, ct::labels::shift));
  some.save(path);
  biases again({.learning_rate = 0.1f}, {.seed = 4});
  again.load(path);
  CHECK(again.step(again.batch(tokens, tokens, ct::labels::shift)).loss ==
        some.step(some.batch(tokens, tokens, ct::labels::shift)).loss);
  CHECK(weights_of(again) == weights_of(some));
  everything all;
  auto const sentence = ct::test::sentence([&] { all.load(path); });
  CHECK(sentence.find("its set of policies fixed for a run is train_only<role::bias>, the trainer's is none") !=
        std::string::npos);
  CHECK(ct::explanation<biases>().find("policies    fp32, momentum, train_only<role::bias>\n") != std::string::npos);
}

TEST_CASE("a saved run goes on with the same roles in another order") {
  ct::test::temporary_directory const directory;
  auto const path = directory / "run";
  with<ct::freeze<role::bias, role::norm>> saved({.learning_rate = 0.1f}, {.seed = 3});
  saved.step(saved.batch(tokens, tokens, ct::labels::shift));
  saved.save(path);
  with<ct::freeze<role::norm, role::bias>> other({.learning_rate = 0.1f}, {.seed = 4});
  other.load(path);
  CHECK(weights_of(other) == weights_of(saved));
  CHECK(other.step(other.batch(tokens, tokens, ct::labels::shift)).loss ==
        saved.step(saved.batch(tokens, tokens, ct::labels::shift)).loss);
  with<ct::freeze<role::norm>> fewer;
  CHECK(ct::test::sentence([&] { fewer.load(path); })
            .find("fixed for a run is freeze<role::bias, role::norm>, the "
                  "trainer's is freeze<role::norm>") != std::string::npos);
}

TEST_CASE("a saved run goes on with the same roles, each as often as somebody wrote it, and with no others") {
  ct::test::temporary_directory const directory;
  auto const path = directory / "run";
  with<ct::freeze<role::bias, role::norm>> saved({.learning_rate = 0.1f}, {.seed = 3});
  saved.step(saved.batch(tokens, tokens, ct::labels::shift));
  saved.save(path);
  auto const copy = directory / "copy";
  auto const write = [&](std::string const& policies) {
    ct::io::directory_reader const reader(path);
    ct::io::directory_writer writer(copy);
    for (auto const& file : reader.entries()) {
      auto text = std::string(reader.text(file.name));
      std::string const written = "freeze<role::bias, role::norm>";
      if (file.name == "state.json") text.replace(text.find(written), written.size(), policies);
      writer.write(file.name, text);
    }
    writer.commit();
  };
  with<ct::freeze<role::norm, role::bias>> t;
  for (auto const* same : {"freeze<role::norm, role::bias>", "freeze<role::norm, role::bias, role::norm>"}) {
    write(same);
    t.load(copy);
    CHECK(weights_of(t) == weights_of(saved));
  }
  for (auto const* other : {"freeze<role::norm, role::head>", "freeze<role::norm, role::bias, 3>", "freeze<>",
                            "train_only<role::norm, role::bias>", "own::freeze<role::norm, role::bias>"}) {
    write(other);
    CHECK(ct::test::sentence([&] { t.load(copy); }).find("set of policies fixed for a run") != std::string::npos);
  }
}
