#include "../sentence.hpp"
#include "../temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

// How many steps an epoch takes is known before the first one, and is what is read.

namespace ct = constrain;
using ct::data::tail;
using ct::test::sentence, ct::test::temporary_directory;

namespace {

constexpr std::int64_t tokens = 4;

/// So many samples; of those in `without`, all tokens are given: no label.
ct::data::corpus corpus_of(std::int64_t samples, std::set<std::int64_t> const& without = {}) {
  auto const size = static_cast<std::size_t>(samples * tokens + 1);
  std::string text(size, 'x');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 % 200);
  std::vector<bool> given(without.empty() ? 0 : size);
  for (auto const sample : without)
    for (std::int64_t i = 1; i <= tokens; ++i) given[static_cast<std::size_t>(sample * tokens + i)] = true;
  return ct::data::corpus::from_bytes(text, given);
}

template <class... numbers> std::string formatted(numbers... n) { return ((std::to_string(n) + " ") + ...); }

/// The batches that begin before an epoch's end, read one by one.
std::int64_t read(std::int64_t epochs, ct::data::corpus const& corpus, ct::data::position from, std::int64_t sequences,
                  tail t) {
  ct::batch_source source(corpus, 5, from, sequences, tokens, t, 0, 1);
  auto const samples = ct::data::samples(corpus.size(), tokens);
  ct::batch_buffer buffer;
  buffer.inputs.resize(static_cast<std::size_t>(sequences * tokens)), buffer.labels = buffer.inputs;
  for (std::int64_t count = 0;; ++count) {
    source(buffer);
    auto const next = buffer.batch.next;
    auto const end = next.epoch * samples + next.sample;
    auto const first = end - (t == tail::pad ? 1 : sequences); // the last sample of a padded one is of the same epoch
    if (first >= epochs * samples) return count;
  }
}

} // namespace

TEST_CASE("batches until an epoch's end, from everywhere, of every tail") {
  for (auto const t : {tail::carry, tail::drop, tail::pad})
    for (std::int64_t const samples : {7, 12, 13})
      for (std::int64_t const sequences : {1, 3, 4, 7})
        for (auto const& without : {std::set<std::int64_t>{}, {0, 1, 2, 3, 4, 6}, {2, 5}}) {
          auto const corpus = corpus_of(samples, without);
          for (std::int64_t sample = 0; sample < samples; ++sample)
            for (std::int64_t epochs = 1; epochs <= 4; ++epochs) {
              ct::data::position const from{1, sample};
              auto const where = formatted(static_cast<int>(t), samples, sequences, without.size(), sample, epochs);
              CAPTURE(where);
              CHECK(ct::batches_until(epochs, corpus, 5, from, sequences, tokens, t) ==
                    read(epochs, corpus, from, sequences, t));
            }
        }
}

TEST_CASE("an epoch of each tail") {
  auto const corpus = corpus_of(10);
  auto const batches = [&](tail t, std::int64_t epochs) {
    return ct::batches_until(epochs, corpus, 1, {}, 4, tokens, t);
  };
  CHECK(batches(tail::carry, 1) == 3); // the last one begins the next epoch
  CHECK(batches(tail::carry, 2) == 5); // 20 samples
  CHECK(batches(tail::drop, 2) == 4);
  CHECK(batches(tail::pad, 2) == 6);
  CHECK(batches(tail::carry, std::numeric_limits<std::int64_t>::max()) == std::numeric_limits<std::int64_t>::max());
  CHECK(ct::batches_until(3, corpus_of(10, {1}), 1, {}, 4, tokens, tail::carry, 2) == 2);
  CHECK(sentence([&] { batches(tail::carry, 0); }) == "");
  CHECK(sentence([&] { ct::batches_until(1, corpus, 1, {}, 0, tokens, tail::carry); }) ==
        "batches_until: the number of sequences is 0; give an integer of at least 1");
  CHECK(sentence([&] {
          ct::batches_until(1, corpus, 1, {}, 11, tokens, tail::drop);
        }).find("so tail::drop would drop every sample") != std::string::npos);
}

TEST_CASE("batches are counted one by one only if that takes minutes at most, and each sample's labels once") {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  auto const said = [](std::int64_t epochs, std::int64_t sequences, std::int64_t limit) {
    return sentence(
        [&] { ct::batches_until(epochs, corpus_of(10, {1}), 1, {}, sequences, tokens, tail::carry, limit); });
  };
  auto const too_many = std::string(
      " are too many to count one by one, which is necessary because some samples have no valid label and a batch of "
      "only such samples is skipped; give fewer epochs, a number of steps instead, or only samples with a valid label");
  CHECK(said(std::int64_t{1} << 50, 4, most) ==
        "batches_until: the batches of 1125899906842624 epochs of 10 samples" + too_many);
  CHECK(said(200'000'000, 4, most) != ""); // 500 million batches
  CHECK(said(200'000'000, 4, 100) == "");
  CHECK(said(200'000'000, 1'000'000'000, most) == ""); // two batches, in which the first sample or the second decides
  // A fit names itself.
  using task = ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 4, .vocabulary = 256, .context = tokens},
                        ct::causal_lm, ct::micro_batch{.sequences = 2}>;
  ct::trainer<task> t;
  CHECK(sentence([&] { ct::fit(t, corpus_of(10, {1}), {.epochs = 200'000'000, .log = nullptr}); }) ==
        "fit: the batches of 200000000 epochs of 10 samples" + too_many);

  struct counted_samples {
    std::shared_ptr<int> calls = std::make_shared<int>(0);
    std::int64_t labels(std::int64_t sample) const { return ++*calls, sample == 3 ? 0 : 5; }
    void view(std::int64_t, ct::batch_buffer&) const {}
    void copy(std::int64_t, std::int64_t, ct::batch_buffer&) const {}
    void pad(std::int64_t, ct::batch_buffer&) const {}
  };
  counted_samples const kind;
  ct::sample_set const samples(std::make_shared<counted_samples const>(kind), {.wording = {}, .size = 10});
  CHECK(ct::batches_until(5, samples, 1, {}, 1, tail::carry) == 45);
  CHECK(*kind.calls <= 11); // the first one tells, too, that there are labels
}

TEST_CASE("a fit whose epochs would have no step says so") {
  using task = ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 4, .vocabulary = 256, .context = tokens},
                        ct::causal_lm, ct::micro_batch{.sequences = 2}>;
  constexpr std::uint64_t seed = 3;
  constexpr ct::data::permutation first(seed, 0, 5), second(seed, 1, 5);
  static_assert(first(4) != second(4)); // the sample that the first epoch drops is in the second
  std::set<std::int64_t> without{0, 1, 2, 3, 4};
  without.erase(first(4));
  auto const corpus = corpus_of(5, without);
  auto const said = [&](ct::fit_options options, std::int64_t of_another_corpus = 0) {
    ct::trainer<task> t({}, {.seed = seed});
    options.log = nullptr;
    if (of_another_corpus > 0) ct::fit(t, corpus_of(10), {.steps = of_another_corpus, .log = nullptr});
    return sentence([&] { ct::fit(t, corpus, options); });
  };
  std::string const refused = "fit: in 1 epoch of 5 samples, tail::drop drops every sample that has a valid label, so "
                              "no step would be taken; give more epochs, or use tail::carry";
  CHECK(said({.epochs = 1, .tail = tail::drop}) == refused);
  CHECK(said({.steps = 2, .epochs = 1, .tail = tail::drop}, 1) == refused);
  CHECK(said({.steps = 1, .epochs = 1, .tail = tail::drop}, 1) == ""); // complete
  CHECK(said({.steps = 0, .epochs = 1, .tail = tail::drop}) == "");
  CHECK(said({.epochs = 2, .tail = tail::drop}) == "");
  CHECK(said({.epochs = 1}) == "");
  // All that fit refuses about the data, fit says, with steps and with epochs.
  for (ct::fit_options options : {ct::fit_options{.steps = 1}, ct::fit_options{.epochs = 1}}) {
    options.log = nullptr, options.tail = tail::drop;
    ct::trainer<task> t;
    CHECK(
        sentence([&] { ct::fit(t, corpus_of(1), options); }).starts_with("fit: an epoch of the corpus has 1 sample,"));
    CHECK(sentence([&] {
            ct::fit(t, corpus_of(2, {0, 1}), options);
          }).starts_with("fit: the corpus has no valid label"));
  }
}

TEST_CASE("fit trains for so many epochs, resumed or not, with whatever comes first") {
  using task = ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 4, .vocabulary = 256, .context = tokens},
                        ct::causal_lm, ct::micro_batch{.sequences = 2}>;
  using trainer = ct::trainer<task, ct::accumulate<2>>; // 4 samples a step
  temporary_directory const directory;
  auto const corpus = corpus_of(10);
  auto const steps = [&](ct::fit_options options) {
    trainer t;
    options.log = nullptr;
    return ct::fit(t, corpus, options).steps.count();
  };
  CHECK(steps({.epochs = 1}) == 3);
  CHECK(steps({.epochs = 3}) == 8); // 30 samples
  CHECK(steps({.epochs = 3, .tail = tail::drop}) == 6);
  CHECK(steps({.epochs = 3, .tail = tail::pad}) == 9);
  CHECK(steps({.steps = 4, .epochs = 3}) == 4);
  CHECK(steps({.steps = 40, .epochs = 3}) == 8);
  CHECK(steps({.steps = 0, .epochs = 3}) == 0);
  CHECK(steps({}) == 100);

  // Taken up again amid an epoch; what is due at parts of the run is due at the same steps.
  trainer whole, first, second;
  std::vector<std::int64_t> evaluated, again;
  struct evaluations {
    std::vector<std::int64_t>& at;
    void on_evaluation(ct::fit_context& c) { at.push_back(c.step.count()); }
  };
  ct::fit_options options{.epochs = 3, .validation = &corpus, .evaluate_every = ct::part_of_run{1, 4}, .log = nullptr};
  ct::fit(whole, corpus, options, evaluations{evaluated});
  ct::fit(first, corpus, {.steps = 5, .directory = directory / "run", .log = nullptr});
  second.resume(directory / "run");
  CHECK(ct::fit(second, corpus, options, evaluations{again}).steps == 8);
  CHECK(evaluated == std::vector<std::int64_t>{2, 4, 6, 8});
  CHECK(again == std::vector<std::int64_t>{6, 8});
  CHECK(second.evaluate(corpus).loss == whole.evaluate(corpus).loss);
  // Nothing is left of three epochs; two more are, and another corpus has all of its own.
  CHECK(ct::fit(second, corpus, {.epochs = 3, .log = nullptr}).steps == 8);
  CHECK(ct::fit(second, corpus, {.epochs = 5, .log = nullptr}).steps == 13);
  CHECK(ct::fit(second, corpus_of(11), {.epochs = 1, .log = nullptr}).steps == 16);

  auto const said = [&](ct::fit_options o) { return sentence([&] { steps(o); }); };
  CHECK(said({.epochs = -1}) == "fit_options: .epochs is -1; give an integer of at least 0");
  CHECK(said({.steps = -2}) == "fit_options: .steps is -2; give an integer of at least 0");
  CHECK(said({.keep_last = -1}) == "fit_options: .keep_last is -1; give an integer of at least 0");
  CHECK(said({.plateau_factor = 0}) == "fit_options: .plateau_factor is 0; give a number above 0 and below 1");
}
