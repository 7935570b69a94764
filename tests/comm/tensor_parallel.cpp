#include "dropout_if_any.hpp"
#include "temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <constrain/train/cheapest.hpp>

#include <cmath>
#include <cstdio>
#include <string>
#include <type_traits>
#include <vector>

// Ranks that divide the layers of a model train as one process does.

namespace ct = constrain;

namespace {

int failures = 0;

void expect(bool holds, char const* what, char const* of, double seen) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s (%g)\n", of, what, seen);
  ++failures;
}

template <ct::gpt2 model> using lm = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2}>;
constexpr ct::gpt2 small{.layers = 3, .heads = 4, .width = 16, .vocabulary = 31, .context = 8};

/// The part of batch `number` that this rank trains on; a label in six is ignored.
template <class trainer> auto batch_of(trainer const& t, int number) {
  static std::vector<std::int32_t> inputs, labels;
  inputs.resize(static_cast<std::size_t>(trainer::batch_tokens)), labels.resize(inputs.size());
  auto const part = static_cast<std::size_t>(t.rank() * t.data_ranks() / t.ranks());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto const n = part * inputs.size() + i;
    inputs[i] = static_cast<std::int32_t>((n * n * 3 + static_cast<std::size_t>(number)) % 31);
    labels[i] = static_cast<std::int32_t>((n * 7 + 5 + static_cast<std::size_t>(number)) % 31);
    if (labels[i] % 6 == 1) labels[i] = ct::ignored_label;
  }
  return t.batch(inputs, labels);
}

std::vector<double> values_of(ct::tensor_view const& t) {
  std::vector<double> values(static_cast<std::size_t>(t.size()));
  t.copy_to(std::span(values));
  return values;
}

/// The largest difference of two tensors, relative to the largest element.
double difference(ct::tensor_view const& a, ct::tensor_view const& b) {
  auto const x = values_of(a), y = values_of(b);
  double worst = 0, scale = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, std::abs(x[i] - y[i])), scale = std::max(scale, std::abs(y[i]));
  return scale == 0 ? worst : worst / scale;
}

/// Whether all tensors of both trainers are equal, and both compute the same.
template <class together, class alone> void check_equal(together& t, alone& one, char const* name, double bound) {
  auto const all = t.parameters(), expected = one.parameters();
  for (std::size_t i = 0; i < all.size(); ++i) {
    double const d = difference(all[i], expected[i]);
    expect(d == 0, std::string(all[i].name).c_str(), name, d);
  }
  std::vector<std::int32_t> const prompt{3, 1, 4};
  bool const is_exact = bound < 1e-10; // else equal probabilities may be rounded differently
  expect(!is_exact || t.generate(prompt, 6) == one.generate(prompt, 6), "other tokens are generated", name, 0);
  std::vector<std::int32_t> samples(static_cast<std::size_t>(3 * together::batch_tokens / together::micro_batches));
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<std::int32_t>(i * 5 % 31);
  auto const whole = samples.size() / static_cast<std::size_t>(alone::batch_tokens / alone::micro_batches) *
                     static_cast<std::size_t>(alone::batch_tokens / alone::micro_batches);
  std::vector<std::int32_t> const some(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(whole));
  auto const ours = t.evaluate(some, some, ct::labels::shift), theirs = one.evaluate(some, some, ct::labels::shift);
  double const loss = ours.loss / theirs.loss - 1;
  expect(std::abs(loss) <= bound, "the losses of an evaluation differ", name, loss);
  expect(!is_exact || ours.accuracy == theirs.accuracy, "the accuracies differ", name, ours.accuracy);
}

/// Each trainer loads the run that the other has saved, and both continue alike.
template <class together, class alone> void check_runs(together& t, alone& one, char const* name, double bound) {
  constrain::test::temporary_directory const mine; // of this rank
  std::string shared(mine / "run");
  shared.resize(256);
  MPI_Bcast(shared.data(), 256, MPI_CHAR, 0, MPI_COMM_WORLD);
  std::string const run = shared.c_str(), own = mine / "own";
  t.save(run);
  one.load(run);
  check_equal(t, one, name, bound);
  auto const ours = t.step(batch_of(t, 11)), theirs = one.step(batch_of(one, 11));
  expect(std::abs(ours.loss - theirs.loss) <= bound * theirs.loss, "the resumed losses differ", name, ours.loss);
  one.save(own); // every process its own, with the same bytes
  t.load(own);
  check_equal(t, one, name, bound);
  t.load_pretrained(own), one.load_pretrained(own);
  check_equal(t, one, name, bound);
  for (auto const& p : t.parameters()) {
    auto values = values_of(p);
    for (auto& v : values) v *= 2;
    p.copy_from(std::span<double const>(values));
    expect(values_of(p) == values, "copied values differ", name, 0);
  }
  MPI_Barrier(MPI_COMM_WORLD); // before a directory is removed
}

/// Feed-forward with a gate and attention with shared keys and values and rotary position embeddings, as in Llama, and
/// a layer of 15 features, which two ranks cannot divide.
struct gated {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 31, .width = 16});
    auto const angles = ct::rotary_table(x, {.head_width = 2, .theta = 20});
    x = ct::repeat("block", 2, x, [&](ct::value h) {
      auto const n = ct::rms_norm("norm", h);
      auto const q = ct::rotary_embedding(ct::linear("q", n, 16, {.bias = false}), angles);
      auto const k = ct::rotary_embedding(ct::linear("k", n, 8, {.bias = false}), angles);
      auto const v = ct::linear("v", n, 8, {.bias = false});
      h = h + ct::linear("o", ct::self_attention(q, k, v, {.heads = 8, .key_value_heads = 4}), 16);
      auto const up = ct::linear("up", n, 24), gate = ct::linear("gate", n, 24);
      h = h + ct::linear("down", ct::silu(gate) * up, 16, {.bias = false});
      return h + ct::linear("narrow", ct::gelu(ct::linear("odd", h, 15)), 16);
    });
    return ct::linear("head", x, 31, {.bias = false, .role = ct::role::head});
  }
};

/// A layer that dropout keeps whole in `step`, and so in all entries. The others are divided: two linear layers in a
/// row, a layer of one part, an output that two ops and two layers read, parts of one layer, weights and biases
/// computed of parameters, and a value from outside of a repeat, and a table that is not trained.
struct own_layers {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const table = ct::parameter(tokens, "frozen", ct::shape(31, 12), ct::role::frozen, {.stddev = 0.1});
    auto x = ct::embedding("token", tokens, {.vocabulary = 31, .width = 12}) + ct::embedding(table, tokens);
    auto const p = ct::linear("p", x, 8, {.parts = {8}}), q = ct::linear("q", ct::silu(p), 8);
    x = x + ct::linear("r", p + q, 12) + ct::linear("s", p, 12, {.bias = false});
    auto const parts = ct::linear("parts", x, 20, {.parts = {8, 4, 8}});
    x = x + ct::linear("t", ct::silu(ct::slice(parts, 2, 0, 8)) * ct::slice(parts, 2, 12, 8), 12);
    auto const outside = ct::gelu(ct::linear("outside", x, 8));
    x = ct::repeat("block", 2, x, [&](ct::value h) {
      h = h + ct::linear("inside", outside, 12);
      h = h + ct::linear("down", ct::dropout(ct::linear("up", h, 8)), 12);
      auto const own = [&](char const* name, ct::shape s) {
        return ct::parameter(h, name, s, ct::role::weight, {.stddev = 0.1});
      };
      auto const bias = own("a", ct::shape(8)) + own("b", ct::shape(8));
      auto const y = ct::emit<ct::op::linear>({h, own("c", ct::shape(8, 12)), bias}, {});
      return h + ct::linear(ct::gelu(y), own("d", ct::shape(12, 8)) + own("e", ct::shape(12, 8)));
    });
    return ct::linear("head", x, 31, {.role = ct::role::head});
  }
};

/// Three tables of which the ranks have ranges of other sizes, one in a repeat, and a head with a bias. The loss needs
/// all logits, so that they are gathered.
struct untied {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 33, .width = 12});
    x = x + ct::silu(ct::embedding("other", tokens, {.vocabulary = 35, .width = 12}));
    x = ct::repeat("block", 2, x, [&](ct::value h) {
      h = h + ct::embedding("inner", tokens, {.vocabulary = 34, .width = 12});
      return h + ct::linear("down", ct::gelu(ct::linear("up", ct::layer_norm("norm", h), 24)), 12);
    });
    return ct::soft_cap(ct::linear("head", x, 33, {.role = ct::role::head}), 2);
  }
};
struct focal_lm {
  static constexpr bool labels_are_next_tokens = true;
  constexpr ct::value operator()(ct::value logits, ct::value labels) const {
    return ct::focal_loss(logits, labels, {});
  }
};

/// Whether ranks of a tensor group with different batches get an error, and can continue.
template <class trainer> void check_other_batches(trainer& t, char const* name) {
  auto const before = values_of(t.parameters()[0]);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(trainer::batch_tokens), t.rank());
  auto const refuses = [&](auto const& call) {
    std::string sentence;
    try {
      call();
    } catch (std::exception const& e) { sentence = e.what(); }
    expect(sentence.find("different data") != std::string::npos, sentence.c_str(), name, 0);
  };
  refuses([&] { t.step(t.batch(ids, ids, ct::labels::shift)); });
  refuses([&] { t.evaluate(ids, ids, ct::labels::shift); });
  auto inputs = ids, labels = ids; // equal arrays, but not equal labels
  for (std::size_t i = 0; i < ids.size(); ++i)
    inputs[i] = static_cast<std::int32_t>(i * 5 % 31), labels[i] = static_cast<std::int32_t>(i * 7 % 31);
  refuses([&] { t.evaluate(inputs, labels, t.rank() % 2 == 0 ? ct::labels::shift : ct::labels::shifted); });
  auto const other = ct::data::random_tokens(2 * trainer::batch_tokens, 8, static_cast<std::uint64_t>(t.rank()));
  refuses([&] { t.evaluate(other); });
  refuses([&] { t.generate(ids, 2); });
  std::vector<std::int32_t> const prompt{3, 1, 4};
  auto const rank = static_cast<std::uint64_t>(t.rank());
  refuses([&] { t.generate(prompt, 2, {.seed = rank}); });
  refuses([&] { t.generate(prompt, 2, {.top_k = t.rank()}); });
  refuses([&] { t.generate(prompt, 2, {.temperature = t.rank() * 0.5}); });
  auto const group = rank * static_cast<std::uint64_t>(t.data_ranks()) / static_cast<std::uint64_t>(t.ranks());
  t.generate(prompt, 2, {.seed = group}); // groups may sample differently
  expect(values_of(t.parameters()[0]) == before, "a refused step has changed a weight", name, 0);
}

/// Ten steps of `strategy` on all ranks against ten steps of one process on the batches of all. `bound`: for losses,
/// norms, gradients, and weights with SGD.
template <class task, class strategy, class alone_task, class... policies>
void compare(char const* name, double bound) {
  using together = ct::trainer<task, strategy, policies...>;
  using alone = ct::trainer<alone_task, policies...>;
  typename alone::hyper h;
  if constexpr (requires { h.base; }) h.base.learning_rate = 0.01f;
  else h.learning_rate = 0.01f;
  ct::run_options run{.seed = 5};
  run.checked = true;
  run.measure_memory = true;
  run.dropout = ct::test::dropout_if_any<alone>(0.1);
  run.clip_norm = 0.5;
  together t{h, run};
  alone one{h, run};
  for (int i = 0; i < 10; ++i) {
    auto const ours = t.step(batch_of(t, i)), theirs = one.step(batch_of(one, i));
    expect(std::abs(ours.loss - theirs.loss) <= bound * theirs.loss, "the losses differ", name,
           ours.loss - theirs.loss);
    double const norm = ours.gradient_norm / theirs.gradient_norm - 1;
    expect(std::abs(norm) <= bound, "the norms differ", name, norm);
    for (auto const& p : one.parameters()) {
      if (i > 0 || p.role == ct::role::frozen) continue;
      double const d = difference(t.gradient(p.name), one.gradient(p.name));
      expect(d <= bound, std::string(p.name).c_str(), name, d);
    }
  }
  auto const all = t.parameters(), expected = one.parameters();
  // AdamW divides by the gradient's size, even if the gradient is zero up to rounding, as for a key's bias.
  constexpr bool by_sgd = (std::is_same_v<policies, ct::optimizer::sgd> || ...);
  // A bias begins at zero, and so adds up the differences of ten gradients, each within the bound.
  constexpr bool in_fp16 = (std::is_same_v<policies, ct::precision::fp16> || ...);
  for (std::size_t i = 0; i < all.size(); ++i) {
    double const d = difference(all[i], expected[i]);
    expect(d <= (!by_sgd ? 10 : in_fp16 ? 2 : 1) * bound, std::string(all[i].name).c_str(), name, d);
  }
  auto const used = t.used_bytes(), planned = together::memory.peak;
  expect(used == planned, "the memory used is not the memory planned", name,
         static_cast<double>((used - planned).count()));
  check_runs(t, one, name, bound);
  check_other_batches(t, name);
}

#if CONSTRAIN_RANKS == 2
// The table in docs/several-processes.md.
using gpt2_124m = ct::task<ct::gpt2{}, ct::causal_lm, ct::micro_batch{.sequences = 1}>;
using one_process = ct::trainer<gpt2_124m>;
using two_processes = ct::trainer<gpt2_124m, ct::parallel::tensor<2>>;
static_assert(one_process::memory.weights.count() == 497'759'232 && one_process::memory.peak.count() == 2'617'827'648);
static_assert(two_processes::memory.weights.count() == 250'567'680);
static_assert(two_processes::memory.gradients.count() == 250'567'680);
static_assert(two_processes::memory.optimizer_state.count() == 501'135'360);
static_assert(two_processes::memory.communication.count() == 1'048'576);
static_assert(two_processes::memory.peak.count() == 1'395'982'656);

// Two ranks that share their batches train on half as many tokens each. They do not divide all work, so for the cost
// model, which leaves out transfers, two ranks of ddp are faster.
using policies_of_ddp = ct::policies<ct::parallel::ddp>;
using policies_of_tensor = ct::policies<ct::parallel::tensor<2>>;
using choice = ct::cheapest<ct::gibibytes(4), gpt2_124m, policies_of_tensor, policies_of_ddp>;
static_assert(choice::table[0].fits && choice::table[1].fits && choice::index == 1);
static_assert(choice::table[0].seconds < choice::table[1].seconds && // each rank of tensor<2> has less to do
              choice::table[0].seconds > choice::table[1].seconds / 2);
constexpr bool about(double a, double b) { return a < b * 1.000001 && b < a * 1.000001; }
static_assert(about(choice::table[0].tokens_per_second * choice::table[0].seconds, 1024 / 2));
static_assert(about(choice::table[1].tokens_per_second * choice::table[1].seconds, 1024));
using mesh = ct::policies<ct::parallel::mesh<ct::parallel::ddp, ct::parallel::tensor<2>>, ct::accumulate<3>>;
constexpr auto of_mesh = ct::detail::estimated<gpt2_124m, mesh>::within(ct::gibibytes(4));
static_assert(about(of_mesh.tokens_per_second * of_mesh.seconds, 3 * 1024 / 2));
#endif

} // namespace

int main() {
  using ct::optimizer::sgd, ct::parallel::tensor, ct::parallel::mesh, ct::parallel::zero;
  using ct::precision::fp64;
#if CONSTRAIN_RANKS == 2
  using task = lm<small>;
  compare<task, tensor<2>, task, fp64, sgd>("fp64", 1e-13);
  compare<task, tensor<2>, task, sgd, ct::accumulate<3>, ct::checkpoint::every<2>>("accumulate, checkpoint", 5e-6);
  compare<task, tensor<2>, task, ct::precision::bf16, sgd>("bf16", 1.6e-2);
  compare<task, tensor<2>, task, ct::precision::fp16, sgd>("fp16", 2e-3);
  compare<task, tensor<2>, task, fp64, sgd, ct::fusion::all, ct::attention::reference>("fusion, reference", 1e-13);
  using other = ct::task<gated{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 8}>;
  compare<other, tensor<2>, other, fp64, sgd>("gated", 1e-13);
  // Two ranks divide the feed-forward and the vocabulary, but not three heads.
  using odd = lm<ct::gpt2{.layers = 2, .heads = 3, .width = 24, .vocabulary = 31, .context = 8}>;
  compare<odd, tensor<2>, odd, fp64, sgd>("three heads", 1e-13);
  using own = ct::task<own_layers{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 8}>;
  compare<own, tensor<2>, own, fp64, sgd>("own layers", 1e-13);
  using focal = ct::task<untied{}, focal_lm, ct::micro_batch{.sequences = 2, .tokens = 8}>;
  compare<focal, tensor<2>, focal, fp64, sgd, ct::fusion::all, ct::accumulate<2>>("untied, focal loss", 1e-13);
  using capped = ct::task<untied{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 8}>;
  compare<capped, tensor<2>, capped, fp64, sgd>("untied, capped logits", 1e-13);
  using average = ct::optimizer::averaged<sgd>;
  compare<task, tensor<2>, task, fp64, average>("averaged", 1e-13);
#else
  using task = lm<small>;
  using wide = ct::task<small, ct::causal_lm, ct::micro_batch{.sequences = 4}>;
  compare<task, tensor<4>, task, fp64, sgd>("tensor<4>", 1e-13);
  compare<task, mesh<ct::parallel::ddp, tensor<2>>, wide, fp64, sgd>("ddp", 1e-13);
  compare<task, mesh<zero<1, 2>, tensor<2>>, wide, fp64, ct::optimizer::adamw, ct::accumulate<3>>("zero<1, 2>", 1e-13);
  compare<task, mesh<zero<2, 2>, tensor<2>>, wide, sgd, ct::checkpoint::every<1>>("zero<2, 2>", 5e-6);
  compare<task, mesh<zero<3, 2>, tensor<2>>, wide, fp64, sgd>("zero<3, 2>", 1e-13);
#endif
  return failures == 0 ? 0 : 1;
}
