#include "../sentence.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

// The content of the batches of a corpus: every sample of an epoch, the tail policy, the number of labels.

namespace ct = constrain;
using ct::data::corpus, ct::data::tail;
using ct::test::sentence;

namespace {

constexpr int tokens = 4, sequences = 3;

/// Sample s begins with token s.
corpus numbered(int samples) {
  std::string bytes;
  for (int s = 0; s < samples; ++s) bytes += std::string{static_cast<char>(s), 'x', 'y', 'z'};
  return corpus::from_bytes(bytes + "!!"); // the last label, and a rest that makes no sample
}

ct::batch_source source(corpus const& text, tail kind, int rank = 0, int ranks = 1, ct::data::position from = {}) {
  return {text, 7, from, sequences, tokens, kind, rank, ranks};
}

/// The samples of one batch, -1 where it is padded; checks that inputs, labels and their count agree.
std::vector<int> fill(ct::batch_source& from, ct::data::position* next = nullptr) {
  ct::batch_buffer buffer{std::vector<std::int32_t>(sequences * tokens), std::vector<std::int32_t>(sequences * tokens)};
  from(buffer);
  std::vector<int> samples;
  std::int64_t valid = 0;
  for (std::size_t s = 0; s < sequences; ++s) {
    auto const inputs = buffer.batch.inputs.subspan(s * tokens, tokens),
               labels = buffer.batch.labels.subspan(s * tokens, tokens);
    bool const padded = labels[0] == ct::ignored_label;
    samples.push_back(padded ? -1 : inputs[0]);
    for (std::size_t i = 0; i < tokens; ++i) {
      if (padded) CHECK(inputs[i] == 0);
      CHECK((labels[i] == ct::ignored_label) == padded);
      if (!padded && i + 1 < tokens) CHECK(labels[i] == inputs[i + 1]);
      valid += !padded;
    }
  }
  CHECK(buffer.batch.valid_labels == valid);
  if (next != nullptr) *next = buffer.batch.next;
  return samples;
}

} // namespace

TEST_CASE("the tail of an epoch is carried, dropped or padded") {
  auto const text = numbered(8); // two batches of 3 and a rest of 2
  for (auto const kind : {tail::carry, tail::drop, tail::pad}) {
    CAPTURE(static_cast<int>(kind));
    auto batches = source(text, kind);
    std::vector<std::multiset<int>> epochs(2);
    for (int epoch = 0; epoch < 2; ++epoch)
      for (int w = 0; w < (kind == tail::pad ? 3 : 2); ++w)
        for (int sample : fill(batches)) epochs[static_cast<std::size_t>(epoch)].insert(sample);
    if (kind == tail::pad)
      for (auto const& epoch : epochs) {
        CHECK(epoch.count(-1) == 1);
        for (int s = 0; s < 8; ++s) CHECK(epoch.count(s) == 1);
      }
    if (kind == tail::drop)
      for (auto const& epoch : epochs) CHECK((epoch.size() == 6 && std::set(epoch.begin(), epoch.end()).size() == 6));
    if (kind == tail::carry) { // 12 samples: all 8 once, 4 of them twice
      epochs[0].merge(epochs[1]);
      for (int s = 0; s < 8; ++s) CHECK(epochs[0].count(s) >= 1);
    }
  }
}

TEST_CASE("a batch's place is where the next one begins") {
  auto const text = numbered(8);
  for (auto const kind : {tail::carry, tail::drop, tail::pad}) {
    auto batches = source(text, kind);
    for (int w = 0; w < 7; ++w) {
      ct::data::position next;
      fill(batches, &next);
      auto resumed = source(text, kind, 0, 1, next), ahead = batches;
      CHECK(fill(resumed) == fill(ahead));
    }
  }
}

TEST_CASE("processes share a batch, its tail too") {
  auto const text = numbered(8); // batches of 2 x 3
  for (auto const kind : {tail::carry, tail::drop, tail::pad}) {
    auto first = source(text, kind, 0, 2), second = source(text, kind, 1, 2);
    std::multiset<int> all;
    for (int w = 0; w < 2; ++w) {
      for (int s : fill(first)) all.insert(s);
      for (int s : fill(second)) all.insert(s);
    }
    CHECK(all.size() == 12);
    CHECK(all.count(-1) == (kind == tail::pad ? 4 : 0));
    if (kind == tail::pad)
      for (int s = 0; s < 8; ++s) CHECK(all.count(s) == 1);
  }
  CHECK(sentence([&] { source(text, tail::drop, 0, 3); }) ==
        "batches: an epoch of the corpus has 8 samples, but a batch takes 9, so tail::drop would drop every sample; "
        "give more text or use tail::carry");
}

TEST_CASE("what is given is no label, in the loss neither") {
  // Rows of four: the last of each is learned from, in the third none.
  std::string bytes;
  std::vector<bool> given;
  for (int row = 0; row < 6; ++row) {
    bytes += "abc" + std::string(1, static_cast<char>('0' + row));
    given.insert(given.end(), {true, true, true, row == 2});
  }
  bytes += "!";
  given.push_back(true);
  using task = ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 8, .vocabulary = 256, .context = tokens},
                        ct::causal_lm, ct::micro_batch{.sequences = 2}>;
  using trainer = ct::trainer<task>;
  trainer from_corpus({}, {.seed = 3}), from_arrays({}, {.seed = 3});
  auto const text = corpus::from_bytes(bytes, given);
  int steps = 0;
  for (auto const& batch : from_corpus.batches(text)) {
    auto const batch_of_arrays = from_arrays.batch(batch.inputs, batch.labels);
    CHECK(batch.valid_labels == batch_of_arrays.valid_labels);
    auto const a = from_corpus.step(batch), b = from_arrays.step(batch_of_arrays);
    CHECK(a.loss == b.loss);
    CHECK(a.tokens == b.tokens);
    CHECK((a.tokens == 1 || a.tokens == 2));
    if (++steps == 9) break;
  }
}

TEST_CASE("batches without a label are left out") {
  std::string bytes(40, 'a');
  std::vector<bool> given(40, true);
  given[21] = false; // of nine samples one has a label
  auto const text = corpus::from_bytes(bytes, given);
  ct::batch_source batches(text, 1, {}, 1, tokens, tail::carry, 0, 1);
  ct::batch_buffer buffer{std::vector<std::int32_t>(tokens), std::vector<std::int32_t>(tokens)};
  for (int i = 0; i < 5; ++i) {
    batches(buffer);
    CHECK(buffer.batch.valid_labels == 1);
    CHECK(buffer.batch.labels[0] == 'a'); // of the sample that begins with token 20
  }
  // Where tails are dropped, the one may be among them for many epochs.
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    auto const few = corpus::from_bytes(
        bytes.substr(0, 13), {true, true, false, true, true, true, true, true, true, true, true, true, true});
    ct::batch_source dropping(few, seed, {}, 2, tokens, tail::drop, 0, 1);
    ct::batch_buffer two{std::vector<std::int32_t>(2 * tokens), std::vector<std::int32_t>(2 * tokens)};
    for (int i = 0; i < 4; ++i) {
      dropping(two);
      CHECK(two.batch.valid_labels == 1);
    }
  }
  auto const nothing = corpus::from_bytes(bytes, std::vector<bool>(40, true));
  for (std::int64_t const none : {0, -1})
    CHECK(sentence([&] {
            ct::batch_source(nothing, 1, {}, none, tokens, tail::carry, 0, 1);
          }).starts_with("batches: the number of sequences is "));
  CHECK(sentence([&] { ct::batch_source(nothing, 1, {}, 1, tokens, tail::carry, 5, 2); }) ==
        "batches: rank 5 of 2 does not exist; give at least 1 rank, and a rank that is at least 0 and below the number "
        "of ranks");
  CHECK(
      sentence([&] { ct::batch_source(nothing, 1, {}, 1, tokens, tail::carry, 0, 1); }) ==
      "batches: the corpus has no valid label, because its samples could only predict prompt tokens or padding; give a "
      "corpus with text to learn");
  std::vector<bool> prompt(40, true);
  prompt[0] = prompt[39] = false; // the first token is no label, and 38 tokens fill the samples
  auto const last = corpus::from_bytes(bytes, prompt);
  CHECK(sentence([&] { ct::batch_source(last, 1, {}, 1, 37, tail::carry, 0, 1); }) ==
        "batches: the corpus has no valid label, because only its last tokens, which fill no sample, could be labels; "
        "give fewer `.tokens` per sequence or more text to learn");
  CHECK(sentence([&] { ct::batch_source(last, 1, {}, 1, 39, tail::carry, 0, 1); }).empty());
}
