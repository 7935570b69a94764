#include "../../op/own_setting.hpp"
#include "change_tensors.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

// Settings in the files of a saved run: their values must be valid for `trainer::set`, and their names differ from the
// names of optimizer states.

namespace ct = constrain;
using namespace constrain::test;

namespace {

/// With a setting of its own and one of the library's.
struct scaled_model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::dropout(ct::embedding("token", tokens, {.vocabulary = 32, .width = 8}));
    return scaled(ct::linear("head", x, 32), "factor", 1);
  }
};
/// Two settings have names that also are, after "setting.", the names of states of a layer.
struct model_of_alike_names {
  bool has_settings = true;
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::linear("setting", ct::embedding("token", tokens, {.vocabulary = 32, .width = 8}), 8);
    if (has_settings) x = scaled(scaled(x, "weight.exp_avg", 2), "setting.weight.exp_avg", 3);
    return ct::linear("head", x, 32);
  }
};
template <auto model, class... policies>
using trainer_of =
    ct::trainer<ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 8}>, policies...>;

constexpr ct::gpt2 gpt2{.layers = 1, .heads = 1, .width = 8, .vocabulary = 32, .context = 8};

std::vector<std::int32_t> const inputs{1, 5, 3, 7, 9, 11, 2, 4, 8, 16, 31, 30, 29, 1, 2, 3};
std::vector<std::int32_t> const labels{5, 3, 7, 9, 11, 2, 4, 8, 16, 31, 30, 29, 1, 2, 3, 5};

/// Writes a saved run again, with another value of a setting.
void change_setting(std::string const& from, std::string const& to, std::string const& name, double x) {
  change_tensors(from, to, [&](std::vector<ct::io::tensor>& tensors) {
    auto const is_it = [&](ct::io::tensor const& t) { return t.name == "setting." + name; };
    auto const found = std::find_if(tensors.begin(), tensors.end(), is_it);
    REQUIRE(found != tensors.end());
    found->bytes = std::as_bytes(std::span(&x, 1));
  });
}

struct wrong {
  std::string setting;
  double value;
  std::string text;
};

/// Loads runs with wrong settings into a trainer, which refuses each of them and stays as it is.
template <class trainer> void check_refused(std::vector<wrong> const& all) {
  temporary_directory const directory;
  ct::run_options const run{.seed = 3, .clip_norm = 0.5, .dropout = 0.2};
  trainer saved({}, run), t({}, {.seed = 4, .clip_norm = 0.25, .dropout = 0.1});
  saved.step(saved.batch(inputs, labels));
  saved.save(directory / "step-1");
  auto const before = t.predict(inputs).logits;
  for (auto const& w : all) {
    CAPTURE(w.setting);
    CAPTURE(w.text);
    auto const path = directory / "changed";
    change_setting(directory / "step-1", path, w.setting, w.value);
    auto const setting_before = t.setting(w.setting);
    CHECK(sentence([&] { t.load(path); }) == "the saved run '" + path + "' has an invalid state: its setting " +
                                                 w.setting + " is " + w.text +
                                                 "; load another saved run, or load only the weights of this one with "
                                                 "load_pretrained");
    CHECK(t.setting(w.setting) == setting_before);
    CHECK(t.setting("clip_norm") == 0.25);
    CHECK(t.steps() == 0);
    CHECK(t.predict(inputs).logits == before);
    // `resume` takes the run before it.
    trainer resumed({}, run);
    change_setting(directory / "step-1", directory / "step-2", w.setting, w.value);
    CHECK(resumed.resume(directory / "", nullptr));
    CHECK(resumed.steps() == 1);
    CHECK(resumed.setting(w.setting) == saved.setting(w.setting));
  }
}

} // namespace

TEST_CASE("a saved setting that `set` refuses is refused, with nothing changed") {
  double const inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  check_refused<trainer_of<scaled_model{}>>({{"dropout", 1, "1"},
                                             {"dropout", -0.1, "-0.1"},
                                             {"dropout", nan, "nan"},
                                             {"clip_norm", -1, "-1"},
                                             {"clip_norm", inf, "inf"},
                                             {"factor", nan, "nan"},
                                             {"factor", -inf, "-inf"}});
  check_refused<trainer_of<gpt2, ct::precision::fp16>>({{"loss_scale", 0, "0"},
                                                        {"loss_scale", -65536, "-65536"},
                                                        {"loss_scale", 0x1p-25, "2.98023224e-08"},
                                                        {"loss_scale", 0x1p128, "3.402823669209385e+38"},
                                                        {"loss_scale", inf, "inf"},
                                                        {"loss_scale_steps", -1, "-1"}});
}

TEST_CASE("a loss scale stays one that can be loaded, however fast it grows") {
  temporary_directory const directory;
  trainer_of<gpt2, ct::precision::fp16> t({}, {.loss_scale = {.growth = 1e308, .interval = 1}}), resumed;
  t.step(t.batch(inputs, labels));
  CHECK(t.setting("loss_scale") == 0x1p127);
  t.save(directory / "run");
  resumed.load(directory / "run");
  CHECK(resumed.setting("loss_scale") == t.setting("loss_scale"));
}

TEST_CASE("settings whose names are those of states have names of their own in the file") {
  temporary_directory const directory;
  trainer_of<model_of_alike_names{}> t({}, {.seed = 3}), resumed;
  t.set("weight.exp_avg", 0.5), t.set("setting.weight.exp_avg", 0.25);
  t.step(t.batch(inputs, labels));
  t.save(directory / "run");
  resumed.load(directory / "run");
  CHECK(resumed.setting("weight.exp_avg") == 0.5);
  CHECK(resumed.setting("setting.weight.exp_avg") == 0.25);
  CHECK(resumed.step(resumed.batch(inputs, labels)).loss == t.step(t.batch(inputs, labels)).loss);
  CHECK(resumed.predict(inputs).logits == t.predict(inputs).logits);
}

TEST_CASE("a state is not taken for a setting that the file lacks") {
  temporary_directory const directory;
  trainer_of<model_of_alike_names{.has_settings = false}> before({}, {.seed = 3});
  before.step(before.batch(inputs, labels));
  before.save(directory / "run");
  trainer_of<model_of_alike_names{}> t;
  t.load(directory / "run");
  CHECK(t.setting("weight.exp_avg") == 2);
  CHECK(t.setting("setting.weight.exp_avg") == 3);
  std::vector<float> saved(64), loaded(64);
  before.state("setting.weight", "exp_avg").copy_to(std::span(saved));
  t.state("setting.weight", "exp_avg").copy_to(std::span(loaded));
  CHECK(saved == loaded);
}
