// Transfers that are cut into several MPI calls, as those of 2 GiB are: with a small maximum of a call's bytes. Started
// by mpirun; the exit code tells. This program counts the calls: its functions replace MPI's.

#include <constrain/comm/mpi.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace ct = constrain;

namespace {

int failures = 0, gathers = 0, exchanges = 0;
std::int64_t longest_gather = 0; // bytes of a buffer that a call spans

void check(bool holds, std::string const& what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

using bytes = std::vector<std::byte>;
using numbers = std::vector<std::int64_t>;

/// A byte that tells the rank, the buffer and the place.
std::byte byte_of(int rank, int salt, std::int64_t place) {
  return static_cast<std::byte>(1 + (rank * 101 + salt * 37 + place * 7) % 251);
}

/// Ranges for the ranks: their lengths, of which some are 0, and `gap` bytes between them.
struct ranges {
  numbers offsets, lengths;
  std::int64_t end = 0;

  ranges(int ranks, std::int64_t unit, std::int64_t gap) {
    for (int r = 0; r < ranks; ++r) {
      offsets.push_back(end), lengths.push_back((r * 2 + 1) % 4 == 3 ? 0 : unit + r * 5);
      end += lengths.back() + gap;
    }
  }
};

bytes gathered(ct::communicator& group, ranges const& of) {
  bytes buffer(static_cast<std::size_t>(of.end) + 1);
  auto const rank = static_cast<std::size_t>(group.rank());
  for (std::int64_t i = 0; i < of.lengths[rank]; ++i)
    buffer[static_cast<std::size_t>(of.offsets[rank] + i)] = byte_of(group.rank(), 0, i);
  group.all_gather(buffer.data(), of.offsets.data(), of.lengths.data());
  return buffer;
}

/// What every rank has after the all-gather; no byte between the ranges changes.
bytes expected_gather(int ranks, ranges const& of) {
  bytes buffer(static_cast<std::size_t>(of.end) + 1);
  for (int r = 0; r < ranks; ++r)
    for (std::int64_t i = 0; i < of.lengths[static_cast<std::size_t>(r)]; ++i)
      buffer[static_cast<std::size_t>(of.offsets[static_cast<std::size_t>(r)] + i)] = byte_of(r, 0, i);
  return buffer;
}

bytes exchanged(ct::communicator& group, ranges const& of, std::int64_t length) {
  bytes send(static_cast<std::size_t>(of.end) + 1), receive(static_cast<std::size_t>(group.size() * length));
  for (std::size_t i = 0; i < send.size(); ++i) send[i] = byte_of(group.rank(), 1, static_cast<std::int64_t>(i));
  group.all_to_all(send.data(), of.offsets.data(), of.lengths.data(), receive.data(), length);
  return receive;
}

bytes expected_exchange(ct::communicator const& group, ranges const& of, std::int64_t length) {
  bytes receive(static_cast<std::size_t>(group.size() * length));
  auto const own = static_cast<std::size_t>(group.rank());
  for (int r = 0; r < group.size(); ++r)
    for (std::int64_t i = 0; i < of.lengths[own]; ++i)
      receive[static_cast<std::size_t>(r * length + i)] = byte_of(r, 1, of.offsets[own] + i);
  return receive;
}

void compare(ct::communicator& sliced, ct::communicator& whole, std::int64_t call_bytes, ranges const& of) {
  auto const name = "calls of " + std::to_string(call_bytes) + " bytes, ranges up to " + std::to_string(of.end);
  auto const length = *std::max_element(of.lengths.begin(), of.lengths.end()) + 2;
  auto const end = of.offsets.back() + of.lengths.back(); // the last range has no gap after it
  auto const slices = [&](std::int64_t span) { return static_cast<int>((span + call_bytes - 1) / call_bytes); };
  gathers = exchanges = 0, longest_gather = 0;
  auto const all = gathered(sliced, of), received = exchanged(sliced, of, length);
  check(gathers == std::max(1, slices(end)), name + ": other number of all-gathers");
  check(longest_gather <= call_bytes, name + ": an all-gather spans more");
  bool const fits = std::max(end, sliced.size() * length) <= call_bytes;
  check(exchanges == (fits ? 1 : slices(length - 2)), name + ": other number of exchanges");
  check(all == gathered(whole, of) && all == expected_gather(sliced.size(), of), name + ": other bytes gathered");
  check(received == exchanged(whole, of, length) && received == expected_exchange(sliced, of, length),
        name + ": other bytes exchanged");
}

void compare_all(std::int64_t call_bytes) {
  ct::mpi sliced(1800, call_bytes), whole;
  auto const sliced_pair = sliced.size() % 2 == 0 ? sliced.groups_of(2) : nullptr;
  auto const whole_pair = sliced_pair ? whole.groups_of(2) : nullptr;
  for (std::int64_t const unit : {0, 3, 64, 1000})
    for (std::int64_t const gap : {0, 9}) {
      compare(sliced, whole, call_bytes, ranges(sliced.size(), unit, gap));
      if (sliced_pair) compare(*sliced_pair, *whole_pair, call_bytes, ranges(2, unit, gap));
    }
  // The same range for each rank, as ranks with the same shard have in a reduce-scatter.
  ranges same(sliced.size(), 0, 0);
  same.end = 50;
  for (std::size_t r = 0; r < same.offsets.size(); ++r) same.offsets[r] = 11, same.lengths[r] = 39;
  check(exchanged(sliced, same, 40) == expected_exchange(sliced, same, 40), "other bytes of one range");
}

} // namespace

extern "C" {
int MPI_Allgatherv(void const* send, int count, MPI_Datatype type, void* receive, int const* counts, int const* starts,
                   MPI_Datatype of_receive, MPI_Comm group) {
  int size = 0;
  MPI_Comm_size(group, &size);
  ++gathers;
  for (int r = 0; r < size; ++r) longest_gather = std::max<std::int64_t>(longest_gather, starts[r] + counts[r]);
  return PMPI_Allgatherv(send, count, type, receive, counts, starts, of_receive, group);
}
int MPI_Alltoallv(void const* send, int const* counts, int const* starts, MPI_Datatype type, void* receive,
                  int const* receive_counts, int const* receive_starts, MPI_Datatype of_receive, MPI_Comm group) {
  ++exchanges;
  return PMPI_Alltoallv(send, counts, starts, type, receive, receive_counts, receive_starts, of_receive, group);
}
int MPI_Alltoallw(void const* send, int const* counts, int const* starts, MPI_Datatype const* types, void* receive,
                  int const* receive_counts, int const* receive_starts, MPI_Datatype const* of_receive,
                  MPI_Comm group) {
  ++exchanges;
  return PMPI_Alltoallw(send, counts, starts, types, receive, receive_counts, receive_starts, of_receive, group);
}
}

int main() {
  for (std::int64_t const call_bytes : {std::int64_t{1}, std::int64_t{7}, std::int64_t{64}, std::int64_t{1000},
                                        std::int64_t{4096}, ct::mpi::maximum_call_bytes})
    compare_all(call_bytes);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
