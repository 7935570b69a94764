#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

// A step accepts only batches of its own trainer, while their arrays still hold the batch; a refused batch changes
// nothing.

namespace ct = constrain;
using ct::test::sentence;

namespace {

template <int sequences, int tokens>
using task = ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 8, .vocabulary = 256, .context = tokens},
                      ct::causal_lm, ct::micro_batch{.sequences = sequences}>;
using trainer = ct::trainer<task<2, 8>>;

/// Everything that must not change.
template <class trainer> std::string state_of(trainer const& t) {
  std::string all;
  for (auto const& p : t.parameters()) {
    std::vector<float> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(values));
    all.append(reinterpret_cast<char const*>(values.data()), values.size() * sizeof(float));
  }
  auto const& s = t.state();
  for (auto const number :
       {s.steps.count(), s.skipped, static_cast<std::int64_t>(s.corpus), s.position.epoch, s.position.sample})
    all += " " + std::to_string(number);
  return all;
}

ct::data::corpus text() {
  std::string bytes;
  for (int i = 0; i < 3000; ++i) bytes += static_cast<char>('a' + i * i % 23);
  return ct::data::corpus::from_bytes(bytes);
}

/// Checks that the call is refused with this sentence and changes nothing: the trainer continues as without the call.
void refuses(trainer& t, ct::batch const& w, std::string const& said) {
  auto const before = state_of(t);
  CHECK(sentence([&] { t.step(w); }) == said);
  CHECK(state_of(t) == before);
}

std::string const other_lengths =
    ", but this trainer takes 16 and 16; take the batch from this trainer's `batches` or `batch`";
std::string const stale =
    "step: the batch's arrays were reused, because the range from `batches` has advanced or ended since; step each "
    "batch before advancing, or copy its arrays and pass the copies to batch(inputs, labels)";

} // namespace

TEST_CASE("a batch that is empty, of other lengths or of other sequences") {
  trainer t;
  refuses(t, {}, "step: the first input of the batch has 0 elements and the first label 0" + other_lengths);
  std::vector<std::int32_t> many(4096, 5);
  for (std::size_t const inputs : {0, 1, 15, 16, 17, 32, 4096})
    for (std::size_t const labels : {0, 15, 16, 4096}) {
      if (inputs == 16 && labels == 16) continue;
      refuses(t, {std::span(many).first(inputs), std::span(many).first(labels), 16},
              "step: the first input of the batch has " + std::to_string(inputs) +
                  (inputs == 1 ? " element" : " elements") + " and the first label " + std::to_string(labels) +
                  other_lengths);
    }
  ct::trainer<task<4, 4>> narrow;
  refuses(t, narrow.batch(std::span(many).first(16), std::span(many).first(16)),
          "step: the batch has sequences of 4 tokens, but this trainer takes 8; take the batch from this trainer's "
          "`batches` or `batch`");
  auto const corpus = text();
  for (auto const& w : narrow.batches(corpus)) {
    CHECK(sentence([&] { t.step(w); }).find("sequences of 4 tokens") != std::string::npos);
    break;
  }
  CHECK(t.steps() == 0);
  CHECK(t.step(t.batch(std::span(many).first(16), std::span(many).first(16))).tokens == 16);
}

TEST_CASE("a batch of a trainer with another accumulation; of one with an equal, it trains both") {
  using three = ct::trainer<task<2, 8>, ct::accumulate<3>>;
  auto const corpus = text();
  trainer a, b;
  three c;
  int steps = 0;
  for (auto const& w : c.batches(corpus)) {
    refuses(a, w, "step: the first input of the batch has 48 elements and the first label 48" + other_lengths);
    break;
  }
  for (auto const& w : a.batches(corpus)) {
    CHECK(sentence([&] { c.step(w); }).find("16 elements and the first label 16, but this trainer takes 48 and 48") !=
          std::string::npos);
    CHECK(a.step(w).loss == b.step(w).loss);
    if (++steps == 3) break;
  }
  CHECK(c.steps() == 0);
  CHECK(state_of(a) == state_of(b));
}

TEST_CASE("a copy of a batch whose range went on or ended") {
  auto const corpus = text();
  trainer t;
  ct::batch kept, last;
  {
    auto range = t.batches(corpus);
    auto at = range.begin();
    kept = *at;
    auto const again = *at;
    t.step(kept);
    t.step(again); // as long as it is the latest, as often as one likes
    ++at;
    refuses(t, kept, stale);
    refuses(t, again, stale);
    last = *at;
    t.step(last);
  }
  refuses(t, last, stale);
  refuses(t, kept, stale);
  // A second range of the same corpus has tickets of its own.
  auto range = t.batches(corpus), other = t.batches(corpus);
  auto at = range.begin(), beside = other.begin();
  kept = *at;
  for (int i = 0; i < 5; ++i) ++beside;
  t.step(kept);
  refuses(t, last, stale);
  CHECK(t.steps() == 4);
}

TEST_CASE("a token or label that changes after batch() was made") {
  trainer t, undisturbed;
  std::vector<std::int32_t> inputs(16, 5), labels(16, 6);
  auto const w = t.batch(inputs, labels);
  for (int const bad : {-1, 256, 2000000000, -2000000000, ct::ignored_label}) {
    inputs[13] = bad;
    refuses(t, w,
            "step: token " + std::to_string(bad) +
                " at index 13 is outside the vocabulary of 256; pass tokens from 0 to 255");
    CHECK(sentence([&] {
            t.predict(inputs);
          }).starts_with("predict: token " + std::to_string(bad) + " at index 13 is outside"));
    CHECK(sentence([&] {
            t.evaluate(inputs, labels);
          }).starts_with("evaluate: token " + std::to_string(bad) + " at index 13 is outside"));
    inputs[13] = 5;
    if (bad == ct::ignored_label) continue;
    labels[2] = bad;
    refuses(t, w,
            "step: label " + std::to_string(bad) +
                " at index 2 is outside the 256 classes; pass labels from 0 to 255, or -100 to ignore one");
    labels[2] = 6;
  }
  std::fill(labels.begin(), labels.end(), ct::ignored_label);
  refuses(t, w, "step: every label is ignored, so there is no loss; pass at least one valid label");
  labels[7] = 6; // counted as they are now, not as they were
  CHECK(t.step(w).tokens == 1);
  undisturbed.step(undisturbed.batch(inputs, labels));
  CHECK(state_of(t) == state_of(undisturbed));
}

TEST_CASE("every place of every length is looked at") {
  for (std::size_t length : {1, 63, 64, 65, 127, 128, 200}) {
    std::vector<std::int32_t> tokens(length, 3);
    CHECK(ct::detail::count_labels("x", tokens, 4) == static_cast<std::int64_t>(length));
    for (std::size_t i = 0; i < length; ++i) {
      tokens[i] = 4;
      auto const place = "4 at index " + std::to_string(i) + " is outside";
      CHECK(sentence([&] { ct::detail::check_tokens("x", tokens, 4); }).starts_with("x: token " + place));
      CHECK(sentence([&] { ct::detail::count_labels("x", tokens, 4); }).starts_with("x: label " + place));
      tokens[i] = ct::ignored_label;
      CHECK(ct::detail::count_labels("x", tokens, 4) == static_cast<std::int64_t>(length) - 1);
      tokens[i] = 3;
    }
    ct::detail::check_tokens("x", tokens, 4);
  }
}

TEST_CASE("where the host cannot look into the arena, what it is given is checked") {
  struct device_arena final : ct::arena {
    std::vector<std::byte> bytes = std::vector<std::byte>(1024);
    device_arena() : arena(ct::bytes(1024)) {}
    std::byte* data() const override { return nullptr; }
    std::byte* host() const override { return nullptr; }
    void copy_out(std::int64_t, void*, std::int64_t) const override {}
    void copy_in(std::int64_t, void const*, std::int64_t) override {}
    void set(std::int64_t, std::int64_t, unsigned char) override {}
  } arena;
  ct::detail::batch_copier const into_arena("x", arena);
  ct::plan_port const to_tokens{ct::port_kind::input, {.name = "tokens"}, 5, false, 100, {.elements = 100}};
  ct::plan_port const to_labels{ct::port_kind::label, {.name = "labels"}, 7, true, 100, {.elements = 100}};
  std::vector<std::int32_t> tokens(100, 4);
  into_arena(to_tokens, tokens);
  tokens[99] = ct::ignored_label;
  CHECK(into_arena(to_labels, tokens) == 99);
  std::int64_t valid[4];
  CHECK(into_arena.labels({&to_labels, 1}, tokens, valid) == 99);
  CHECK(valid[0] == 25);
  CHECK(valid[3] == 24);
  // All real labels count. Ports of an entry without labels do not change the counts.
  ct::plan_port const to_reals{ct::port_kind::label,    {.name = "y", .type = ct::port_type::real}, 0, false, 100,
                               {.type = ct::dtype::f32}};
  CHECK(into_arena.labels({&to_reals, 1}, std::vector<float>(100, 1.0f), valid) == 100);
  CHECK(valid[3] == 25);
  CHECK(into_arena.labels({&to_tokens, 1}, {}, valid) == 0);
  CHECK(valid[3] == 25);
  tokens[99] = 6;
  CHECK(sentence([&] {
          into_arena(to_tokens, tokens);
        }).starts_with("x: token 6 at index 99 is outside the vocabulary of 5"));
  CHECK(into_arena(to_labels, tokens) == 100);
  tokens[0] = 7;
  CHECK(sentence([&] { into_arena(to_labels, tokens); }).starts_with("x: label 7 at index 0 is outside the 7 classes"));
  auto one_class = to_labels;
  one_class.limit = 1;
  CHECK(sentence([&] { into_arena(one_class, tokens); }).starts_with("x: label 7 at index 0 is outside the 1 class;"));
}

TEST_CASE("a file of tokens that is cut short under a run ends it with a sentence") {
  ct::test::temporary_directory const directory;
  auto const path = directory / "tokens.bin";
  std::string bytes;
  for (int i = 0; i < 40000; ++i) bytes += static_cast<char>(i % 2 == 0 ? i * i % 23 : 0);
  ct::test::write_file(path, bytes);
  trainer t;
  auto const corpus = ct::data::tokens(path);
  CHECK(
      sentence([&] {
        for (auto const& w : t.batches(corpus)) {
          t.step(w);
          if (t.steps() == 3) std::filesystem::resize_file(path, 10);
          REQUIRE(t.steps() < 10); // some are filled by then
        }
      }).starts_with("the token file '" + path + "' was truncated while in use: it had 40000 bytes and has 10 now; "));
  CHECK(t.steps() >= 3);
  CHECK(sentence([&] { t.evaluate(corpus); }).find("was truncated") != std::string::npos);
}

TEST_CASE("a trainer that was moved from says so") {
  auto const corpus = text();
  trainer from({}, {.seed = 3});
  trainer to = std::move(from), straight({}, {.seed = 3});
  std::vector<std::int32_t> const tokens(16, 5);
  auto const w = to.batch(tokens, tokens);
  auto const said = [](auto&& action) {
    CHECK(sentence(action) == "this trainer or inference object was moved from; use the object that it was moved into");
  };
  said([&] { from.step(w); });
  said([&] { from.batches(corpus); });
  said([&] { from.evaluate(corpus); });
  said([&] { from.predict(tokens); });
  said([&] { from.generate("a", 1); });
  said([&] { from.parameters(); });
  said([&] { from.save("nowhere"); });
  said([&] { from.rank(); });
  said([&] { from.used_bytes(); });
  said([&] { ct::fit(from, corpus, {.log = nullptr}); });
  CHECK(to.step(w).loss == straight.step(w).loss);
  from = std::move(to);
  CHECK(from.step(w).loss == straight.step(w).loss);
  auto& same = from;
  from = std::move(same);
  CHECK(from.step(w).loss == straight.step(w).loss);
  CHECK(state_of(from) == state_of(straight));
}
