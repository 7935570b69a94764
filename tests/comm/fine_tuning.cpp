// What people fine-tune, in two processes: a BERT with a new head on a pretrained body, which classifies padded texts
// and is evaluated on several sets, and a GPT-2 on packed documents. Both give what one process with as many
// micro-batches gives. Started by mpirun; the exit code tells.

#include <constrain/constrain.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

namespace ct = constrain;

namespace {

using integers = std::vector<std::int32_t>;

int failures = 0;

void check(bool holds, std::string const& what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

constexpr ct::bert body{.layers = 1, .heads = 2, .width = 8, .hidden = 16, .vocabulary = 20, .context = 6};
using pretraining = ct::trainer<ct::task<body, ct::masked_lm, ct::micro_batch{.sequences = 2}>, ct::precision::fp64,
                                ct::parallel::zero<3, 2>>;
struct classification : ct::classification {
  using metrics = ct::metrics<ct::macro_f1>;
};
using classifies = ct::task<body.with_classes(3), classification, ct::micro_batch{.sequences = 2}>;

constexpr ct::gpt2 packed_model = [] {
  ct::gpt2 m{.layers = 1, .heads = 2, .width = 8, .vocabulary = 20, .context = 6};
  m.packed = true;
  return m;
}();
using packs = ct::task<packed_model, ct::causal_lm, ct::micro_batch{.sequences = 2}>;

template <class task> using one_process = ct::trainer<task, ct::precision::fp64, ct::accumulate<2>>;
template <class task> using two_processes = ct::trainer<task, ct::precision::fp64, ct::parallel::ddp>;
template <class task> using shards = ct::trainer<task, ct::precision::fp64, ct::parallel::zero<3, 2>>;

/// Texts of 2 to 6 tokens, padded to 6.
struct texts {
  integers tokens, types, lengths, classes;
  texts(int count, std::uint32_t seed) {
    for (int i = 0; i < count; ++i) {
      auto const next = [&] { return seed = seed * 1664525u + 1013904223u, seed >> 16; };
      lengths.push_back(static_cast<std::int32_t>(2 + next() % 5)), classes.push_back(0);
      for (int k = 0; k < 6; ++k) {
        tokens.push_back(k < lengths.back() ? static_cast<std::int32_t>(next() % 20) : 0);
        types.push_back(k > 2);
        if (k < lengths.back()) classes.back() = (classes.back() + tokens.back()) % 3;
      }
    }
  }
  ct::data::examples all() const { return {{tokens, types, lengths}, classes}; }
};
texts const training(14, 1), validation(7, 2), books(5, 3);

/// Documents of 1 to 9 tokens, packed into rows of 6.
ct::data::examples documents(int count) {
  ct::data::documents all;
  for (int i = 0; i < count; ++i) {
    integers tokens;
    for (int k = 0; k <= i * 5 % 9; ++k) tokens.push_back((i * 7 + k * k) % 20);
    all.add(tokens);
  }
  return ct::data::pack(all, {.length = 6});
}

template <class trainer> void add_weights(std::vector<double>& all, trainer const& t) {
  for (auto const& p : t.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(values));
    all.insert(all.end(), values.begin(), values.end());
  }
}

/// The weights, losses, accuracies and metrics of a new head trained on the body in `path`.
template <class trainer> std::vector<double> classified(std::string const& path) {
  trainer t({.learning_rate = 1e-2f}, {.seed = 6});
  auto const loaded = t.load_pretrained(path, {.strict = false});
  check(std::ranges::find(loaded.missing, "classifier.weight") != loaded.missing.end(), loaded.text());
  check(std::ranges::find(loaded.missing, "bert.embeddings.word_embeddings.weight") == loaded.missing.end(),
        loaded.text());
  auto const data = training.all(), held_out = validation.all(), others = books.all();
  auto const r = ct::fit(t, data,
                         {.epochs = 2,
                          .validation = &held_out,
                          .further_validation = {{"books", &others}, {"the same", &held_out}},
                          .log = nullptr});
  std::vector<double> all{r.loss};
  auto const add = [&](ct::evaluation const& e) {
    all.insert(all.end(), {e.loss, e.accuracy, e.metric("macro_f1").value_or(-1)});
  };
  add(*r.validation);
  for (auto const& set : r.further_validation) add(set.result);
  check(r.further_validation.size() == 2, "not every set was evaluated");
  check(r.further_validation.back().result.loss == r.validation->loss, "a set that is given twice has two losses");
  check(*r.validation->metric("macro_f1") > 0, "no class was found");
  add_weights(all, t);
  return all;
}

/// The weights, and the losses of training and validation.
template <class trainer> std::vector<double> packed() {
  trainer t({.learning_rate = 1e-2f}, {.seed = 6});
  auto const data = documents(23), held_out = documents(9);
  auto const r = ct::fit(t, data, {.epochs = 2, .validation = &held_out, .log = nullptr});
  std::vector<double> all{r.loss, r.validation->loss};
  add_weights(all, t);
  return all;
}

double distance(std::vector<double> const& a, std::vector<double> const& b) {
  double most = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (auto const distance = std::abs(a[i] - b[i]); !(distance <= most)) most = std::isnan(distance) ? 1e9 : distance;
  return most;
}

} // namespace

int main() {
  pretraining pretrained({}, {.seed = 2});
  if (pretrained.ranks() != 2) return std::fprintf(stderr, "start two processes\n"), EXIT_FAILURE;
  std::string const path = "pretrained-in-2-processes";
  pretrained.save(path, {.max_shard_size = ct::bytes(2000)});
  auto const alone = classified<one_process<classifies>>(path), together = classified<two_processes<classifies>>(path);
  check(distance(alone, together) < 1e-12, "two processes that classify differ from one");
  check(classified<shards<classifies>>(path) == together, "shards that classify differ from full tensors");
  auto const rows = packed<two_processes<packs>>();
  check(distance(packed<one_process<packs>>(), rows) < 1e-12, "two processes with packed rows differ from one");
  check(packed<shards<packs>>() == rows, "shards with packed rows differ from full tensors");
  if (pretrained.rank() == 0 && failures == 0) std::printf("2 ranks: all checks hold\n");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
