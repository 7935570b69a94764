// Training in several processes: started by mpirun with 1 to 4 of them. Every rank checks; the exit code tells.

#include <constrain/constrain.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace ct = constrain;

namespace {

int failures = 0;

void check(bool holds, std::string const& what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

// Matrices of 2 to 9 chunks, the last one short, which no number of ranks divides; vectors of one.
constexpr int width = 46;
constexpr ct::gpt2 model{.layers = 5, .heads = 2, .width = width, .vocabulary = 61, .context = 16};
template <int sequences> using task = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = sequences}>;

constexpr int per_rank = 2;
constexpr int steps = 20;
constexpr std::size_t sequence = 16;

/// The global batches; every rank draws the same.
struct batches {
  std::vector<std::int32_t> inputs, labels;
  int sequences;

  explicit batches(int global) : sequences(global) {
    std::mt19937 random(5);
    inputs.resize(static_cast<std::size_t>(steps * global) * sequence);
    labels.resize(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = static_cast<std::int32_t>(random() % 61);
      auto const unequal = i / sequence % 5;
      labels[i] = i % sequence < unequal ? ct::ignored_label : static_cast<std::int32_t>(random() % 61);
    }
  }
  template <class trainer> ct::step_result step(trainer& t, int number) const {
    auto const length = static_cast<std::size_t>(trainer::batch_tokens);
    auto const begin =
        static_cast<std::size_t>(number * sequences) * sequence + static_cast<std::size_t>(t.rank()) * length;
    return t.step(t.batch(std::span(inputs).subspan(begin, length), std::span(labels).subspan(begin, length)));
  }
};

std::vector<double> values_of(ct::tensor_view const& t) {
  std::vector<double> values(static_cast<std::size_t>(t.size()));
  t.copy_to(std::span<double>(values));
  return values;
}

struct outcome {
  std::vector<double> losses;                          // and gradient norms
  std::vector<std::vector<double>> gradients, weights; // of the first step; after the last
};

template <class trainer> outcome train(batches const& w, double clip_norm, bool checked = false) {
  trainer t{{.learning_rate = 1e-2f},
            {.seed = 3, .clip_norm = clip_norm, .dropout = 0.1, .checked = checked, .measure_memory = !checked}};
  outcome o;
  for (int i = 0; i < steps; ++i) {
    auto const r = w.step(t, i);
    o.losses.push_back(r.loss);
    o.losses.push_back(r.gradient_norm);
    if (i == 0)
      for (auto const& p : t.parameters()) o.gradients.push_back(values_of(t.gradient(p.name)));
  }
  for (auto const& p : t.parameters()) o.weights.push_back(values_of(p));
  if (!checked) check(t.used_bytes() == trainer::memory.peak, trainer::policy_set::name() + ": used is not planned");
  return o;
}

/// Rank 0 refuses its batch, the others do not: all ranks throw, and no rank has a gradient any more.
void refuse_on_one_rank(int ranks) {
  ct::trainer<task<per_rank>, ct::parallel::ddp> t;
  batches const w(ranks * per_rank);
  w.step(t, 0);
  auto const throws = [](auto const& call) {
    try {
      call();
      return false;
    } catch (ct::error const&) { return true; }
  };
  check(throws([&] { t.rank() == 0 ? t.step(ct::batch{}) : w.step(t, 1); }), "a rank steps without rank 0");
  check(ranks == 1 || throws([&] { t.gradient(t.parameters().front().name); }), "a rank kept its gradients");
  check(ranks > 1 || !throws([&] { t.gradient(t.parameters().front().name); }), "a refused batch took the gradients");
  w.step(t, 1);
  check(t.steps() == 2, "a refused batch counts as a step");
}

bool same(outcome const& a, outcome const& b) {
  return a.losses == b.losses && a.weights == b.weights && a.gradients == b.gradients;
}

// The worst tensor's difference relative to its norm; the key bias, zero by mathematics, absolutely.
struct apart {
  double relative = 0, key_bias = 0;
};
apart difference(std::vector<std::vector<double>> const& a, std::vector<std::vector<double>> const& b) {
  apart worst;
  for (std::size_t t = 0; t < a.size(); ++t) {
    double sum = 0, size = 0;
    for (std::size_t i = 0; i < a[t].size(); ++i) {
      bool const qkv_bias = t == 5; // in the order of the model's parameters
      if (qkv_bias && i % (3 * width) >= width && i % (3 * width) < 2 * width) {
        worst.key_bias = std::max({worst.key_bias, std::abs(a[t][i]), std::abs(b[t][i])});
        continue;
      }
      sum += (a[t][i] - b[t][i]) * (a[t][i] - b[t][i]);
      size += a[t][i] * a[t][i];
    }
    worst.relative = std::max(worst.relative, std::sqrt(sum / size));
  }
  return worst;
}

/// One process on the same global batch, for as many ranks as there are.
template <class precision> outcome alone(batches const& w, double clip_norm) {
  switch (w.sequences / per_rank) {
  case 1: return train<ct::trainer<task<2>, precision>>(w, clip_norm);
  case 2: return train<ct::trainer<task<4>, precision>>(w, clip_norm);
  case 3: return train<ct::trainer<task<6>, precision>>(w, clip_norm);
  default: return train<ct::trainer<task<8>, precision>>(w, clip_norm);
  }
}

template <class precision, int shards> void compare(int ranks, int rank, double relative, double key_bias) {
  using ddp = ct::trainer<task<per_rank>, precision, ct::parallel::ddp>;
  using zero = ct::trainer<task<per_rank>, precision, ct::parallel::zero<3, shards>>;
  using recomputed = ct::trainer<task<per_rank>, precision, ct::parallel::zero<3, shards>, ct::checkpoint::every<2>>;
  batches const w(ranks * per_rank);
  double const clip_norm = 0.3;
  auto const replicated = train<ddp>(w, clip_norm);
  auto const sharded = train<zero>(w, clip_norm);
  std::string const name = zero::policy_set::name();
  bool clipped = false; // odd places hold the norms
  for (std::size_t i = 1; i < replicated.losses.size(); i += 2) clipped = clipped || replicated.losses[i] > clip_norm;
  check(clipped, "nothing is clipped");
  check(same(replicated, sharded), name + " is not ddp bit for bit, with clipping and several groups too");
  check(same(sharded, train<zero>(w, clip_norm, true)), name + ": checked mode changes numbers");
  check(same(sharded, train<recomputed>(w, clip_norm)), name + ": checkpointing changes numbers");
  if (rank == 0) {
    auto const one = alone<precision>(w, clip_norm);
    auto const d = difference(one.gradients, replicated.gradients);
    std::printf("%d ranks, %s: gradients %.1e from one process, key bias %.1e\n", ranks, name.c_str(), d.relative,
                d.key_bias);
    check(d.relative <= relative, name + ": gradients are not one process's");
    check(d.key_bias <= key_bias, name + ": the key bias has a gradient");
  }
}

template <class trainer> std::vector<double> losses_over(ct::data::corpus const& corpus, ct::data::tail tail) {
  trainer t{{.learning_rate = 1e-2f}, {.seed = 3}};
  std::vector<double> losses;
  for (auto const& batch : t.batches(corpus, tail)) {
    auto const r = t.step(batch);
    losses.insert(losses.end(), {r.loss, static_cast<double>(r.tokens)});
    if (t.steps() == 12) return losses;
  }
  return losses;
}

/// The parts of all ranks together are the batches of one process, also at the ends of epochs.
void compare_batches(int ranks, int rank) {
  using fp64 = ct::precision::fp64;
  auto const corpus = ct::data::random_tokens(11 * sequence + 5, 61, 2); // 11 samples an epoch, batches of 2 to 8
  for (auto tail : {ct::data::tail::carry, ct::data::tail::drop, ct::data::tail::pad}) {
    auto const several = losses_over<ct::trainer<task<per_rank>, fp64, ct::parallel::ddp>>(corpus, tail);
    if (rank != 0) continue;
    auto const one = ranks == 1   ? losses_over<ct::trainer<task<2>, fp64>>(corpus, tail)
                     : ranks == 2 ? losses_over<ct::trainer<task<4>, fp64>>(corpus, tail)
                     : ranks == 3 ? losses_over<ct::trainer<task<6>, fp64>>(corpus, tail)
                                  : losses_over<ct::trainer<task<8>, fp64>>(corpus, tail);
    bool near = several.size() == one.size();
    for (std::size_t i = 0; near && i < one.size(); ++i)
      near = std::abs(several[i] - one[i]) <= 1e-12 * std::abs(one[i]);
    check(near, "the batches of a corpus are not one process's, tail " + std::to_string(static_cast<int>(tail)));
  }
}

// 16 bytes a parameter, cut over the ranks; what a rank stores beyond its shard is less than a chunk a tensor.
template <int shards> constexpr bool cut_exactly() {
  using zero = ct::trainer<task<per_rank>, ct::parallel::zero<3, shards>>;
  std::int64_t stored = 0, tensors = 0;
  for (int i = 0; i < zero::entries::parameters.size; ++i) {
    stored += zero::entries::parameters.parameters[i].stored();
    tensors += zero::entries::parameters.parameters[i].iterations;
  }
  auto const& m = zero::memory;
  return (m.weights + m.gradients + m.optimizer_state).count() == 16 * stored &&
         stored * shards >= zero::parameter_count &&
         stored * shards < zero::parameter_count + shards * ct::norm_chunk * tensors && stored < zero::parameter_count;
}
static_assert(cut_exactly<2>() && cut_exactly<3>() && cut_exactly<4>());

// Mixed: 18 bytes for a matrix, 16 for a vector, cut.
constexpr bool mixed_cut_exactly() {
  using zero = ct::trainer<task<per_rank>, ct::precision::bf16, ct::parallel::zero<3, 2>>;
  std::int64_t bytes = 0;
  for (int i = 0; i < zero::entries::parameters.size; ++i) {
    auto const& p = zero::entries::parameters.parameters[i];
    bytes += p.stored() * (p.shape.rank >= 2 ? 18 : 16);
  }
  auto const& m = zero::memory;
  return (m.weights + m.master_weights + m.gradients + m.optimizer_state).count() == bytes;
}
static_assert(mixed_cut_exactly());

template <int shards> void save_and_load(int rank, std::string const& directory) {
  using zero = ct::trainer<task<per_rank>, ct::parallel::zero<3, shards>>;
  zero t{{.learning_rate = 1e-2f}, {.seed = 8}};
  batches const w(t.ranks() * per_rank);
  for (int i = 0; i < 3; ++i) w.step(t, i);
  t.save(directory);
  zero u{{.learning_rate = 1e-2f}, {.seed = 1}};
  u.load(directory);
  for (int i = 3; i < 6; ++i) check(w.step(t, i).loss == w.step(u, i).loss, "a resumed sharded run is another run");
  // The file holds full tensors: one process reads it too.
  if (rank == 0) {
    ct::trainer<task<per_rank>> single;
    single.load(directory);
    check(single.steps() == 3, "one process does not read a sharded run's checkpoint");
  }
}

/// Two ranks whose parallel policies form different groups: all throw, before a rank waits for a group.
void refuse_other_groups(int rank) {
  std::string said;
  try {
    if (rank == 0) ct::trainer<task<per_rank>, ct::parallel::ddp> const divided_by_none({}, {.deadline = 20});
    else ct::trainer<task<per_rank>, ct::parallel::tensor<2>> const divided_by_two({}, {.deadline = 20});
  } catch (ct::error const& e) { said = e.what(); }
  check(said.starts_with("the ranks do not agree: the set of policies is fp32, adamw, parallel::ddp on rank 0 and "
                         "fp32, adamw, parallel::tensor<2> on rank 1"),
        "ranks with different groups: " + said);
}

} // namespace

int main() {
  ct::trainer<task<per_rank>, ct::parallel::ddp> const probe;
  int const rank = probe.rank(), ranks = probe.ranks();
  auto const fp32 = [&]<int shards>() { compare<ct::precision::fp32, shards>(ranks, rank, 5e-6, 1e-7); };
  auto const fp64 = [&]<int shards>() { compare<ct::precision::fp64, shards>(ranks, rank, 1e-13, 1e-15); };
  std::string directory = "mpi-checkpoint-" + std::to_string(ranks);
  switch (ranks) {
  case 1: fp32.operator()<1>(), fp64.operator()<1>(), save_and_load<1>(rank, directory); break;
  case 2: fp32.operator()<2>(), fp64.operator()<2>(), save_and_load<2>(rank, directory); break;
  case 3: fp32.operator()<3>(), fp64.operator()<3>(), save_and_load<3>(rank, directory); break;
  default: fp32.operator()<2>(), fp64.operator()<2>(), save_and_load<2>(rank, directory); break;
  }
  compare_batches(ranks, rank);
  refuse_on_one_rank(ranks);
  if (ranks == 2) refuse_other_groups(rank);
  if (ranks % 2 != 0) {
    std::string said;
    try {
      ct::trainer<task<per_rank>, ct::parallel::zero<3, 2>> const refused;
    } catch (ct::error const& e) { said = e.what(); }
    check(said == "parallel::zero divides tensors over groups of 2 ranks, but the job has " + std::to_string(ranks) +
                      "; start a multiple of 2 ranks",
          "a number of processes that does not fit is not refused: " + said);
  }
  if (rank == 0 && failures == 0) std::printf("%d ranks: all checks hold\n", ranks);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
