#pragma once

#include "constrain/comm/mpi.hpp"

#include "constrain/base/error.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

CONSTRAIN_INLINE mpi::~mpi() {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  watchdog::wait const waits("leaving a group", deadline_);
  if (is_finalized == 0 && frees_processes_) MPI_Comm_free(&processes_);
}

CONSTRAIN_INLINE int mpi::rank_on_node() {
  MPI_Comm node = MPI_COMM_NULL;
  watchdog::wait const waits("finding the ranks of a node", deadline_);
  check(MPI_Comm_split_type(processes_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node),
        "find the ranks of its node");
  int rank = 0;
  MPI_Comm_rank(node, &rank);
  MPI_Comm_free(&node);
  return rank;
}

CONSTRAIN_INLINE void mpi::all_gather(std::byte* buffer, std::int64_t const* offsets, std::int64_t const* lengths) {
  auto const end = end_of(offsets, lengths);
  std::int64_t begin = 0;
  do { // all ranks have the same ranges, so they make the same calls
    convert(receive_counts_, receive_offsets_, offsets, lengths, begin);
    watchdog::wait const waits("gathering", deadline_);
    check(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, buffer + begin, receive_counts_, receive_offsets_, MPI_BYTE,
                         processes_),
          "gather data");
    begin += call_bytes_;
  } while (begin < end);
}

CONSTRAIN_INLINE void mpi::all_to_all(std::byte const* send, std::int64_t const* send_offsets,
                                      std::int64_t const* send_lengths, std::byte* receive, std::int64_t length) {
  if (std::max(end_of(send_offsets, send_lengths), size_ * length) > call_bytes_) {
    auto const longest = *std::max_element(send_lengths, send_lengths + size_);
    for (std::int64_t first = 0; first < longest; first += call_bytes_)
      exchange_slice(send, send_offsets, send_lengths, receive, length, first);
    return;
  }
  convert(send_counts_, send_offsets_, send_offsets, send_lengths, 0);
  for (int r = 0; r < size_; ++r) {
    // `send_lengths` is equal on all ranks, so this rank receives as many bytes from each rank as it sends to itself.
    receive_counts_[r] = static_cast<int>(send_lengths[rank_]);
    receive_offsets_[r] = static_cast<int>(r * length);
  }
  watchdog::wait const waits("exchanging", deadline_);
  check(MPI_Alltoallv(send, send_counts_, send_offsets_, MPI_BYTE, receive, receive_counts_, receive_offsets_, MPI_BYTE,
                      processes_),
        "exchange data");
}

[[gnu::cold]] CONSTRAIN_INLINE void mpi::exchange_slice(std::byte const* send, std::int64_t const* send_offsets,
                                                        std::int64_t const* send_lengths, std::byte* receive,
                                                        std::int64_t length, std::int64_t first) {
  auto const in_slice = [&](int r) { return std::clamp<std::int64_t>(send_lengths[r] - first, 0, call_bytes_); };
  // MPI_Alltoallw, unlike MPI_Alltoallv, takes one datatype per rank. The datatypes hold the offsets, so the call's own
  // offsets are 0.
  std::vector<MPI_Datatype> types(static_cast<std::size_t>(2 * size_), MPI_BYTE);
  auto* const sent = types.data();
  auto* const received = sent + size_;
  for (int r = 0; r < size_; ++r) {
    send_counts_[r] = make_datatype(sent[r], send_offsets[r] + first, in_slice(r));
    receive_counts_[r] = make_datatype(received[r], r * length + first, in_slice(rank_));
    send_offsets_[r] = receive_offsets_[r] = 0;
  }
  watchdog::wait const waits("exchanging", deadline_);
  auto const status = MPI_Alltoallw(send, send_counts_, send_offsets_, sent, receive, receive_counts_, receive_offsets_,
                                    received, processes_);
  for (auto& type : types)
    if (type != MPI_BYTE) MPI_Type_free(&type);
  check(status, "exchange data");
}

CONSTRAIN_INLINE void mpi::barrier() {
  watchdog::wait const waits("waiting for one another", deadline_);
  check(MPI_Barrier(processes_), "wait for the other ranks");
}

CONSTRAIN_INLINE std::unique_ptr<communicator> mpi::split(int group) {
  MPI_Comm ranks = MPI_COMM_NULL;
  watchdog::wait const waits("forming groups", deadline_);
  check(MPI_Comm_split(processes_, group, rank_, &ranks), "form groups of ranks");
  auto* const result = new mpi(ranks, deadline_, call_bytes_);
  result->frees_processes_ = true;
  return std::unique_ptr<communicator>(result);
}

CONSTRAIN_INLINE mpi::mpi(MPI_Comm processes, double deadline, std::int64_t call_bytes)
    : processes_(processes), deadline_(deadline), call_bytes_(call_bytes) {
  MPI_Comm_rank(processes, &rank_);
  MPI_Comm_size(processes, &size_);
  if (size_ > maximum_size) throw error({"MPI: the job has ", size_, " processes; start at most ", maximum_size});
}

CONSTRAIN_INLINE MPI_Comm mpi::initialized_world(double deadline) {
  last_deadline_ = deadline;
  int is_finalized = 0, is_initialized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized != 0)
    throw error("MPI: the program has called MPI_Finalize, so its processes can no longer communicate; construct "
                "trainers and inference objects before this call");
  MPI_Initialized(&is_initialized);
  if (is_initialized == 0) {
    watchdog::instance().start();
    // Processes may start one after another, so a short deadline does not apply to the start.
    watchdog::wait const waits("waiting until all have started", std::max(deadline, 60.0));
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    initialized_mpi_ = true;
  }
  if (barrier_processes_ == MPI_COMM_NULL) prepare_end(deadline);
  return MPI_COMM_WORLD;
}

CONSTRAIN_INLINE void mpi::prepare_end(double deadline) {
  int size = 1, rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (size == 1) watchdog::instance().stop();
  else watchdog::instance().start();
  watchdog::instance().rank(rank);
  watchdog::wait const waits("waiting until all have started", std::max(deadline, 60.0));
  MPI_Comm_dup(MPI_COMM_WORLD, &barrier_processes_);
  process_id_ = ::getpid();
#if defined(__GLIBC__)
  ::on_exit([](int status, void*) { leave(status); }, nullptr);
#else
  std::atexit([] { leave(0); });
#endif
}

CONSTRAIN_INLINE void mpi::leave(int status) {
  if (::getpid() != process_id_) return; // a forked child, not the rank
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized != 0 || (!initialized_mpi_ && status == 0)) return;
  watchdog::instance().call("exit");
  bool all_arrived = timed_barrier(status != 0 ? exit_timeout(last_deadline_) : 0, true);
  if (status != 0 && !all_arrived) end_job(status);
  if (!initialized_mpi_) return;
  // A process that has failed may continue, and then calls the barrier again. So all other processes must call it
  // again, too.
  while (all_arrived && all_exit_ == 0) all_arrived = timed_barrier(0, true);
  watchdog::wait const waits("ending MPI", last_deadline_);
  MPI_Finalize();
}

CONSTRAIN_INLINE bool mpi::timed_barrier(double seconds, bool exits) {
  using clock = std::chrono::steady_clock;
  constexpr double longest_pause = 0.5; // seconds; a longer stop of this process (SIGSTOP) counts as this much
  MPI_Request request = MPI_REQUEST_NULL;
  all_exit_ = exits ? 1 : 0; // static, because MPI may write it after this function has given up
  if (MPI_Iallreduce(MPI_IN_PLACE, &all_exit_, 1, MPI_INT, MPI_MIN, barrier_processes_, &request) != MPI_SUCCESS)
    return false;
  // If `seconds` is not 0, the loop limits the wait; the watchdog then acts only if an MPI call does not return.
  watchdog::wait const waits("waiting until all exit", seconds > 0 ? seconds + 5 : last_deadline_);
  int all_arrived = 0;
  auto last = clock::now();
  for (double waited = 0; all_arrived == 0 && (seconds == 0 || waited < seconds);) {
    if (MPI_Test(&request, &all_arrived, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (all_arrived == 0) ::usleep(1000);
    auto const now = clock::now(); // on a busy machine, the pause takes longer
    waited += std::min(std::chrono::duration<double>(now - last).count(), longest_pause);
    last = now;
  }
  return all_arrived != 0;
}

CONSTRAIN_INLINE void mpi::end_job(int status) {
  std::fflush(nullptr); // MPI_Abort and _exit flush no streams
  {
    watchdog::wait const waits("ending all ranks", 5);
    MPI_Abort(MPI_COMM_WORLD, status);
  }
  ::_exit(status);
}

CONSTRAIN_INLINE void mpi::check(int status, char const* action) const {
  if (status != MPI_SUCCESS)
    throw error({"MPI: rank ", rank_, " of a group of ", counted(size_, "rank"), " could not ", action, " (MPI error ",
                 status, "); check whether another rank has ended, and start all ranks again"});
}

CONSTRAIN_INLINE std::int64_t mpi::end_of(std::int64_t const* offsets, std::int64_t const* lengths) const {
  std::int64_t end = 0;
  for (int r = 0; r < size_; ++r) end = std::max(end, offsets[r] + lengths[r]);
  return end;
}

CONSTRAIN_INLINE void mpi::convert(int* counts, int* starts, std::int64_t const* offsets, std::int64_t const* lengths,
                                   std::int64_t begin) const {
  auto const in_slice = [&](std::int64_t offset) { return std::clamp<std::int64_t>(offset - begin, 0, call_bytes_); };
  for (int r = 0; r < size_; ++r) {
    auto const start = in_slice(offsets[r]);
    counts[r] = static_cast<int>(in_slice(offsets[r] + lengths[r]) - start);
    starts[r] = static_cast<int>(start);
  }
}

[[gnu::cold]] CONSTRAIN_INLINE int mpi::make_datatype(MPI_Datatype& type, std::int64_t offset,
                                                      std::int64_t length) const {
  if (length == 0) return 0;
  auto const count = static_cast<int>(length);
  auto const start = static_cast<MPI_Aint>(offset);
  check(MPI_Type_create_hindexed(1, &count, &start, MPI_BYTE, &type), "create an MPI datatype");
  check(MPI_Type_commit(&type), "create an MPI datatype");
  return 1;
}

} // namespace constrain
