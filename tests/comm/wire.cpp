// Bytes that ranks exchange in a step, counted where the library calls MPI. Started by mpirun; the exit code tells.

#include <constrain/constrain.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace ct = constrain;

namespace {
std::int64_t exchanged = 0; // bytes that this rank receives from others in all_to_all and all_gather

/// Bytes of all ranks but this one.
std::int64_t of_others(int const counts[], MPI_Comm ranks) {
  int rank = 0, size = 1;
  PMPI_Comm_rank(ranks, &rank), PMPI_Comm_size(ranks, &size);
  std::int64_t bytes = 0;
  for (int r = 0; r < size; ++r) bytes += r == rank ? 0 : counts[r];
  return bytes;
}
} // namespace

// MPI's profiling interface: the program's own functions replace the library's.
extern "C" int MPI_Alltoallv(void const* send, int const send_counts[], int const send_offsets[], MPI_Datatype sent,
                             void* receive, int const counts[], int const offsets[], MPI_Datatype type,
                             MPI_Comm ranks) {
  exchanged += of_others(counts, ranks);
  return PMPI_Alltoallv(send, send_counts, send_offsets, sent, receive, counts, offsets, type, ranks);
}
extern "C" int MPI_Allgatherv(void const* send, int count, MPI_Datatype sent, void* receive, int const counts[],
                              int const offsets[], MPI_Datatype type, MPI_Comm ranks) {
  exchanged += of_others(counts, ranks);
  return PMPI_Allgatherv(send, count, sent, receive, counts, offsets, type, ranks);
}

namespace {

int failures = 0;
constexpr int d = 2; // ranks
constexpr std::size_t sequence = 16;
using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 46, .vocabulary = 61, .context = 16}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

/// Bytes of the second step, received by all ranks together: no padding or uneven shard matters in this sum.
template <class trainer> std::int64_t bytes_of_a_step() {
  trainer t;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(trainer::batch_tokens), 7);
  auto const batch = [&] { return t.batch(tokens, tokens); };
  t.step(batch());
  std::int64_t const before = exchanged;
  t.step(batch());
  std::int64_t const mine = exchanged - before;
  std::int64_t all = 0;
  PMPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

/// How often a micro-batch gathers a parameter with zero<3>: once for each body of a loop, and each other call, that
/// reads it.
int reads_of(std::string_view name) {
  if (name.ends_with("bias") || name == "position.weight") return 1; // forward only
  return name == "token.weight" ? 3 : 2;                             // the embedding, and the head that is tied to it
}

/// The bytes of a step by theory, received by all ranks together: d - 1 ranks receive what one rank holds.
template <class trainer> std::int64_t theory(int reductions, int gathers, bool gathers_by_reads) {
  auto const& all = trainer::entries::parameters;
  constexpr bool mixed = trainer::memory.master_weights.count() > 0;
  constexpr bool shards = trainer::entries::shards > 1;
  std::int64_t bytes = 0, chunks = 0;
  for (int i = 0; i < all.size; ++i) {
    auto const& p = all.parameters[i];
    auto const width = mixed && p.shape.rank >= 2 ? 2 : 4;
    bytes += p.elements() * 4 * reductions;
    bytes += p.elements() * width * gathers * (gathers_by_reads ? reads_of(all.name(i)) : 1);
    chunks += p.iterations * ct::norm_chunks(p.gradient().map().stored());
  }
  bytes *= d - 1;
  auto const all_to_all_ranks = [](std::int64_t each) { return d * (d - 1) * each; };
  bytes += all_to_all_ranks(sizeof(double));                      // the loss
  bytes += all_to_all_ranks(sizeof(ct::detail::vote));            // the ranks agree to step
  if (shards) bytes += all_to_all_ranks(chunks * sizeof(double)); // the norm's sums of chunks
  return bytes;
}

/// The same for tensor<d>: in each block, forward and backward, the sums behind attention and behind the feed-forward
/// are all-reduced; with a divided vocabulary, also the embedding, and backward the input of the head. The loss
/// exchanges three numbers a row; then follows the squared norm of each divided gradient.
template <class trainer> std::int64_t theory_of_tensors() {
  constexpr auto model = task::architecture;
  constexpr bool mixed = trainer::memory.master_weights.count() > 0;
  auto const& all = trainer::entries::parameters;
  std::int64_t divided = 0;
  for (auto const& p : all.parameters) divided += p.divided >= 0 ? 1 : 0;
  std::int64_t const activations = trainer::batch_tokens * model.width * (mixed ? 2 : 4);
  auto const all_to_all_ranks = [](std::int64_t each) { return d * (d - 1) * each; };
  return (4 * model.layers + 2) * 2 * (d - 1) * activations + all_to_all_ranks(divided * sizeof(double)) +
         all_to_all_ranks(3 * trainer::batch_tokens * sizeof(float)) +
         // the ranks agree to step, and that their batches are the same
         all_to_all_ranks(2 * sizeof(ct::detail::vote) + sizeof(std::uint64_t));
}

template <int n, class precision> void check(char const* name) {
  using ct::parallel::ddp, ct::parallel::zero;
  auto const compare = [&](char const* what, std::int64_t expected, std::int64_t got) {
    if (got == expected) return;
    ++failures;
    std::fprintf(stderr, "FAILED: %s, %s, accumulate<%d>: %lld bytes, by theory %lld\n", name, what, n,
                 static_cast<long long>(got), static_cast<long long>(expected));
  };
  auto const equals = [&]<class strategy>(char const* what, int reductions, int gathers, bool by_reads = false) {
    using trainer = ct::trainer<task, precision, ct::accumulate<n>, strategy>;
    compare(what, theory<trainer>(reductions, gathers, by_reads), bytes_of_a_step<trainer>());
  };
  equals.template operator()<ddp>("ddp", 2, 0);
  equals.template operator()<zero<1, d>>("zero<1>", 1, 1);
  equals.template operator()<zero<2, d>>("zero<2>", n, 1);
  equals.template operator()<zero<3, d>>("zero<3>", n, n, true);
  using divided = ct::trainer<task, precision, ct::accumulate<n>, ct::parallel::tensor<d>>;
  compare("tensor", theory_of_tensors<divided>(), bytes_of_a_step<divided>());
}

} // namespace

int main() {
  check<1, ct::precision::fp32>("fp32");
  check<3, ct::precision::bf16>("bf16");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
