// Bytes that the devices of 2 ranks send in a step, as the stand-in for NCCL counts them, against theory. As
// tests/comm/wire.cpp, for ranks on the CPU.

#include "cuda/nccl/ranks.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

constexpr int d = 2; // ranks
constexpr int n = 2; // micro-batches
using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 46, .vocabulary = 61, .context = 16}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

/// Bytes of the second step, sent by all ranks together: no padding or uneven shard matters in this sum.
template <class trainer> std::int64_t bytes_of_a_step() {
  trainer t;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(trainer::batch_tokens), 7);
  t.step(t.batch(tokens, tokens));
  std::int64_t const before = on_host::nccl_bytes;
  t.step(t.batch(tokens, tokens));
  std::int64_t all[d];
  all[t.rank()] = on_host::nccl_bytes - before;
  ct::detail::all_gather_values(t.world(), all);
  return all[0] + all[1];
}

/// How often a micro-batch gathers a parameter with zero<3>: once for each body of a loop, and each other call, that
/// reads it.
int reads_of(std::string_view name) {
  if (name.ends_with("bias") || name == "position.weight") return 1; // forward only
  return name == "token.weight" ? 3 : 2;                             // the embedding, and the head that is tied to it
}

/// The bytes of a step by theory: d - 1 ranks receive what one rank holds.
template <class trainer> std::int64_t theory(int reductions, int gathers, bool gathers_by_reads) {
  auto const& all = trainer::entries::parameters;
  constexpr bool mixed = trainer::memory.master_weights.count() > 0;
  std::int64_t bytes = 0, chunks = 0;
  for (int i = 0; i < all.size; ++i) {
    auto const& p = all.parameters[i];
    // Matrices and the biases of linear layers are gathered as copies in 16 bits.
    auto const width = mixed && (p.shape.rank >= 2 || p.role == ct::role::bias) ? 2 : 4;
    bytes += p.elements() * 4 * reductions;
    bytes += p.elements() * width * gathers * (gathers_by_reads ? reads_of(all.name(i)) : 1);
    chunks += p.iterations * ct::norm_chunks(p.gradient().map().stored());
  }
  auto const of_each_rank = [](std::int64_t bytes_of_one) { return d * (d - 1) * bytes_of_one; };
  bytes = bytes * (d - 1) + of_each_rank(sizeof(double));                                         // the loss
  if (trainer::entries::shards > 1) bytes += of_each_rank(chunks * std::int64_t{sizeof(double)}); // the norm's chunks
  return bytes;
}

template <class precision, class strategy> void compare(int reductions, int gathers, bool by_reads = false) {
  using trainer = ct::trainer<task, precision, ct::accumulate<n>, strategy, device_policy>;
  auto const got = bytes_of_a_step<trainer>(), expected = theory<trainer>(reductions, gathers, by_reads);
  auto const name = std::string(trainer::policy_set::name());
  std::printf("%s: %lld bytes\n", name.c_str(), static_cast<long long>(got));
  check(got == expected, name + ": " + std::to_string(got) + " bytes, by theory " + std::to_string(expected));
}

} // namespace

int main() {
  ct::mpi const world;
  show_devices(world.size());
  compare<ct::precision::bf16, ct::parallel::ddp>(2, 0);
  compare<ct::precision::bf16, ct::parallel::zero<1, d>>(1, 1);
  compare<ct::precision::bf16, ct::parallel::zero<2, d>>(n, 1);
  compare<ct::precision::bf16, ct::parallel::zero<3, d>>(n, n, true);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
