#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstring>

// A resumed run is the uninterrupted run, bit for bit.

namespace ct = constrain;

namespace {

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 256, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

struct lion {
  template <class real> struct state { real momentum; };
  struct hyper {
    float learning_rate = 1e-4f, beta1 = 0.9f, beta2 = 0.99f, weight_decay = 0;
  };
  template <class real>
  static real update(real weight, real gradient, state<real>& s, hyper const& h, ct::optimizer_step) {
    real const mixed = real(h.beta1) * s.momentum + (1 - real(h.beta1)) * gradient;
    real const direction = mixed > 0 ? real(1) : mixed < 0 ? real(-1) : real(0);
    s.momentum = real(h.beta2) * s.momentum + (1 - real(h.beta2)) * gradient;
    return weight - real(h.learning_rate) * (direction + real(h.weight_decay) * weight);
  }
};

// 13 samples and batches of 2 or 4: an epoch ends in the middle of a batch.
ct::data::corpus corpus() {
  std::string text;
  for (int i = 0; i < 13 * 8 + 3; ++i) text += static_cast<char>(i * 37 % 251);
  return ct::data::corpus::from_bytes(text);
}

ct::run_options const run{
    .seed = 9, .clip_norm = 0.5, .schedule = ct::schedule::linear{.warmup = 3, .steps = 12}, .dropout = 0.2};

template <class trainer> std::string bytes_of(trainer const& t) {
  std::string all;
  for (auto const& p : t.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(values));
    all.append(reinterpret_cast<char const*>(values.data()), values.size() * sizeof(double));
  }
  return all;
}

template <class... policies> void stop_everywhere() {
  using trainer = ct::trainer<task, policies...>;
  constexpr int steps = 12;
  auto const text = corpus();
  typename trainer::hyper const hyper{.learning_rate = 1e-2f};
  trainer whole(hyper, run);
  std::vector<double> losses;
  for (auto const& w : whole.batches(text)) {
    losses.push_back(whole.step(w).loss);
    if (losses.size() == steps) break;
  }
  CAPTURE(trainer::policy_set::name());
  for (int stop = 0; stop < steps; ++stop) {
    CAPTURE(stop);
    ct::test::temporary_directory const directory;
    {
      trainer first(hyper, run);
      if (stop > 0)
        for (auto const& w : first.batches(text)) {
          first.step(w);
          if (first.steps() == stop) break;
        }
      first.save(directory / "checkpoint");
    }
    // The seed is the saved one, whatever the new run asks for.
    auto other = run;
    other.seed = 1234;
    trainer second(hyper, other);
    second.load(directory / "checkpoint");
    REQUIRE(second.steps() == stop);
    int i = stop;
    for (auto const& w : second.batches(text)) {
      CHECK(second.step(w).loss == losses[static_cast<std::size_t>(i++)]);
      if (i == steps) break;
    }
    CHECK(bytes_of(second) == bytes_of(whole));
  }
}

} // namespace

TEST_CASE("resume is the uninterrupted run, stopped at every step, for every optimizer") {
  stop_everywhere<ct::optimizer::adamw>();
  stop_everywhere<ct::optimizer::sgd>();
  stop_everywhere<ct::optimizer::momentum, ct::accumulate<2>>();
  stop_everywhere<ct::optimizer::nesterov, ct::checkpoint::every<1>>();
  stop_everywhere<ct::optimizer::quantized<ct::optimizer::adam>, ct::accumulate<2>>();
  stop_everywhere<lion, ct::accumulate<2>, ct::precision::fp64>();
  stop_everywhere<ct::optimizer::adamw, ct::precision::bf16>();
  stop_everywhere<ct::optimizer::sgd, ct::precision::fp16, ct::accumulate<2>>();
}

TEST_CASE("fit goes on after a load and saves on the way") {
  ct::test::temporary_directory const directory;
  auto const text = corpus();
  using trainer = ct::trainer<task>;
  trainer whole({.learning_rate = 1e-2f}, run);
  ct::fit(whole, text, {.steps = 9, .log = nullptr});
  trainer first({.learning_rate = 1e-2f}, run);
  ct::fit(first, text, {.steps = 4, .directory = directory / "run/checkpoint", .save_every = 2, .log = nullptr});
  trainer second({.learning_rate = 1e-2f}, run);
  second.load(directory / "run/checkpoint");
  auto const result = ct::fit(second, text, {.steps = 9, .log = nullptr});
  CHECK(result.steps == 9);
  CHECK(bytes_of(second) == bytes_of(whole));
}

TEST_CASE("resume: a directory with other files has no saved run, and a copy without its manifest is damaged") {
  ct::test::temporary_directory const directory;
  using trainer = ct::trainer<task>;
  auto const run_directory = directory / "run";
  std::filesystem::create_directories(run_directory + "/records");
  ct::test::write_file(run_directory + "/train.log", "the job was killed before it saved");
  trainer t({.learning_rate = 1e-2f}, run);
  CHECK_FALSE(t.resume(run_directory));
  t.save(directory / "saved");
  std::filesystem::copy_file(directory / "saved/model.safetensors", run_directory + "/model.safetensors");
  CHECK(ct::test::sentence([&] { t.resume(run_directory); }) ==
        "'" + run_directory +
            "' has no manifest.json, so it is not a complete saved directory; use another copy or another directory");
}

TEST_CASE("resume takes up what is there, and nothing where nothing is") {
  ct::test::temporary_directory const directory;
  using trainer = ct::trainer<task>;
  trainer t({.learning_rate = 1e-2f}, run);
  CHECK_FALSE(t.resume(directory / "checkpoint"));
  CHECK(t.steps() == 0);
  ct::fit(t, corpus(), {.steps = 2, .directory = directory / "checkpoint", .log = nullptr});
  trainer second({.learning_rate = 1e-2f}, run);
  CHECK(second.resume(directory / "checkpoint"));
  CHECK(bytes_of(second) == bytes_of(t));
  // Damaged: reported, and left as it is.
  std::filesystem::resize_file(directory / "checkpoint/model.safetensors", 100);
  trainer third;
  CHECK_THROWS_AS(third.resume(directory / "checkpoint"), ct::error);
  CHECK(third.steps() == 0);
  CHECK(std::filesystem::file_size(directory / "checkpoint/model.safetensors") == 100);
}
