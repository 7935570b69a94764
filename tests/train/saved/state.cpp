#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

// A saved state that no run has ever had is refused, however right its checksums are, and nothing is changed.

namespace ct = constrain;
using ct::test::sentence;

namespace {

using task = ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 8, .vocabulary = 256, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using trainer = ct::trainer<task>;

ct::data::corpus text() {
  std::string bytes;
  for (int i = 0; i < 400; ++i) bytes += static_cast<char>('a' + i * i % 23);
  return ct::data::corpus::from_bytes(bytes);
}

/// Saves `t` with some members of state.json changed or, with an empty value, removed, checksums and all.
void save_with(trainer const& t, std::string const& directory,
               std::vector<std::pair<std::string, std::string>> const& changes) {
  t.save(directory);
  std::vector<std::string> const names{"model.safetensors", "config.json", "optimizer.safetensors", "state.json"};
  std::vector<std::string> contents;
  for (auto const& name : names) contents.push_back(ct::test::read_file(directory + "/" + name));
  for (auto const& [member, value] : changes) {
    auto& json = contents.back();
    auto const name = json.find("\"" + member + "\""), begin = json.find(':', name) + 1;
    auto const end = json.find_first_of(",}\n", begin);
    if (value.empty()) json.erase(name, end + 1 - name);
    else json.replace(begin, end - begin, " " + value);
  }
  ct::io::directory_writer writer(directory);
  for (std::size_t i = 0; i < names.size(); ++i) writer.write(names[i], std::string_view(contents[i]));
  writer.commit();
}

std::string weights_of(trainer const& t) {
  std::string all;
  for (auto const& p : t.parameters()) {
    std::vector<float> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(values));
    all.append(reinterpret_cast<char const*>(values.data()), values.size() * sizeof(float));
  }
  return all;
}

} // namespace

TEST_CASE("a state that cannot be is refused with nothing changed") {
  ct::test::temporary_directory const directory;
  auto const corpus = text();
  trainer saved({}, {.seed = 1}), t({}, {.seed = 2});
  for (auto const& w : saved.batches(corpus))
    if (saved.step(w), saved.steps() == 5) break;
  auto const before = weights_of(t);
  struct wrong {
    std::string member, value, said;
  };
  std::string const huge = "9223372036854775807", tiny = "-9223372036854775808";
  for (auto const& w :
       std::vector<wrong>{{"steps", "-5", "number of steps is -5"},
                          {"steps", huge, "number of steps is " + huge},
                          {"steps", tiny, "number of steps is " + tiny},
                          {"skipped", "1000", "number of skipped steps (of 5) is 1000"},
                          {"skipped", "-1", "number of skipped steps (of 5) is -1"},
                          {"skipped", tiny, "number of skipped steps (of 5) is " + tiny},
                          {"epoch", "-1", "epoch is -1"},
                          {"epoch", huge, "epoch is " + huge},
                          {"sample", "-3", "sample is -3"},
                          {"evaluations_since_best", "-1", "number of evaluations since the lowest loss is -1"},
                          {"missed_evaluation", "6", "step of a missed evaluation is 6"},
                          {"best_validation_loss", "\"nan\"", "lowest validation loss is nan"},
                          {"best_validation_loss", "\"-inf\"", "lowest validation loss is -inf"},
                          {"learning_rate_factor", "\"nan\"", "learning-rate factor is nan"},
                          {"learning_rate_factor", "\"inf\"", "learning-rate factor is inf"},
                          {"learning_rate_factor", "0", "learning-rate factor is 0"},
                          {"learning_rate_factor", "-1", "learning-rate factor is -1"},
                          {"learning_rate_factor", "1e308", "learning-rate factor is 1e+308"}}) {
    auto const path = directory / "changed";
    save_with(saved, path, {{w.member, w.value}});
    CHECK(sentence([&] { t.load(path); }) == "the saved run '" + path + "' has an invalid state: its " + w.said +
                                                 "; load another saved run, or load only the weights of this one with "
                                                 "load_pretrained");
    CHECK(t.steps() == 0);
    CHECK(t.state().seed == 2);
    CHECK(weights_of(t) == before);
  }
  save_with(saved, directory / "as it was", {});
  t.load(directory / "as it was");
  CHECK(t.steps() == 5);
  CHECK(weights_of(t) == weights_of(saved));
}

TEST_CASE("a validation loss that is not finite is not the lowest, and the state with it can be loaded") {
  ct::test::temporary_directory const directory;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  trainer t, loaded;
  for (double const loss : {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()})
    CHECK_FALSE(t.note_validation(loss));
  t.save(directory / "none");
  loaded.load(directory / "none");
  CHECK(loaded.state().best_validation_loss == infinity);
  CHECK(loaded.state().evaluations_since_best == 3);
  CHECK(t.note_validation(2));
  CHECK_FALSE(t.note_validation(-infinity));
  t.save(directory / "run");
  loaded.load(directory / "run");
  CHECK(loaded.state().best_validation_loss == 2);
  CHECK(loaded.state().evaluations_since_best == 1);
}

TEST_CASE("a run saved without the hash of its validation data takes the next data for these") {
  ct::test::temporary_directory const directory;
  trainer t, loaded;
  t.begin_validation(7), t.note_validation(2), t.note_validation(3);
  save_with(t, directory / "run", {{"validation", ""}});
  loaded.load(directory / "run");
  for (std::uint64_t const validation : {9, 9, 7}) {
    loaded.begin_validation(validation);
    CHECK(loaded.state().validation == validation);
    CHECK(loaded.state().evaluations_since_best == (validation == 9 ? 1 : 0));
    CHECK((loaded.state().best_validation_loss == 2) == (validation == 9));
  }
  t.save(directory / "run"), loaded.load(directory / "run");
  CHECK(loaded.state().validation == 7);
}

TEST_CASE("a place beyond the corpus is told before the first step") {
  ct::test::temporary_directory const directory;
  auto const corpus = text(); // 49 samples
  trainer saved, t;
  for (auto const& w : saved.batches(corpus))
    if (saved.step(w), saved.steps() == 1) break;
  save_with(saved, directory / "changed", {{"sample", "49"}});
  t.load(directory / "changed");
  CHECK(sentence([&] { t.batches(corpus); }) ==
        "batches: the start is sample 49 of epoch 0, but epochs are numbered from 0, and the samples of this "
        "corpus from 0 to 48; start at one of these, or resume with the data that the run was saved with");
  CHECK(t.state().position.sample == 49);
  CHECK(t.steps() == 1);
}
